"""smoke"""

from agents_bench import call, does
from conftest import MakeBench


async def test_smoke(make_bench: MakeBench) -> None:
    bench = await make_bench(
        does(call("write", file_path="src/a.py", content="A = 2\n")), does(call("complete_item", item="src/a.py"))
    )
    agent = await bench.start()
    await agent.go_on()
    outcome = await agent.go_on()
    assert outcome.items
    assert agent.commits() == ["x"]
