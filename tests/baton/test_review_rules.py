"""The ten review rules: for each a text that breaks it and a near twin that does not, in both languages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.review_rules import UnreadableSource, review
from baton.review_rules.finding import RULES
from baton.review_rules.script_mask import mask
from baton.severity import Severity, at_least

SCRIPT = [
    (
        "parallel-shared-state",
        "async function all() { await Promise.all(agents.map(async (a) => { state.count += 1; })); }",
        "async function all() { await mutex.run(() => Promise.all(agents.map(async (a) => { state.count += 1; }))); }",
    ),
    (
        "unbounded-recursion",
        "class X { async planAgent(task) { return this.codeAgent(task); } }",
        "class X { async planAgent(task, depth) { if (depth > 3) throw Error(); return this.codeAgent(task); } }",
    ),
    ("unbounded-recursion", "function go() { callAgent('coder'); }", "function go(maxCalls) { callAgent('coder'); }"),
    (
        "no-handoff-context",
        "function next(task) { return handoff(task); }",
        "function next(task, context) { return handoff(task, context); }",
    ),
    (
        "no-token-tracking",
        "async function go() { return Promise.all([plannerAgent(), coderAgent()]); }",
        "async function go() { usage.add(await Promise.all([plannerAgent(), coderAgent()])); }",
    ),
    (
        "no-orchestration-tracing",
        "class FlowOrchestrator { run() { return this.steps(); } }",
        "class FlowOrchestrator { run() { tracer.trace(this.steps); return this.steps(); } }",
    ),
    (
        "no-timeout-multi-agent",
        "async function go(agent) { return await agent.run(); }",
        "async function go(agent) { return await agent.run({ timeout: 5000 }); }",
    ),
    (
        "hardcoded-agent-selection",
        'function pick(kind) { if (kind === "code") { return new CoderAgent(); } }',
        "function pick(kind) { if (registry.can(kind)) { return registry.best(kind); } }",
    ),
    (
        "no-error-propagation",
        "async function go() { try { await step(); } catch (error) { console.log(error); } }",
        "async function go() { try { await step(); } catch (cause) { throw new StepError('go', { cause }); } }",
    ),
    (
        "missing-agent-id",
        "class CoderAgent extends Base { run() { return 1; } }",
        "class CoderAgent extends Base { constructor() { super(); this.id = next(); } }",
    ),
    (
        "global-state-modification",
        "function keep(result) { global.lastResult = result; }",
        "function keep(result, state) { state.lastResult = result; }",
    ),
]

PYTHON = [
    (
        "parallel-shared-state",
        "async def go(agents, state):\n    await asyncio.gather(*(a.run(state.counts) for a in agents))\n",
        "async def go(agents, state, lock):\n    await asyncio.gather(*(a.run(lock, state.counts) for a in agents))\n",
    ),
    (
        "parallel-shared-state",
        "async def one(n):\n    state.total += n\nasync def go():\n    await asyncio.gather(one(1), one(2))\n",
        "async def one(n):\n    return n\nasync def go():\n    await asyncio.gather(one(1), one(2))\n",
    ),
    (
        "unbounded-recursion",
        "class X:\n    async def plan_agent(self, task):\n        return await self.code_agent(task)\n",
        "class X:\n    async def plan_agent(self, task, depth):\n        return await self.code_agent(depth + 1)\n",
    ),
    (
        "no-handoff-context",
        "def following(task):\n    return hand_off(task)\n",
        "def following(task, context):\n    return hand_off(task, context)\n",
    ),
    (
        "no-token-tracking",
        "async def go():\n    return await asyncio.gather(planner_agent(), coder_agent())\n",
        "async def go(budget):\n    return await asyncio.gather(planner_agent(budget), coder_agent(budget))\n",
    ),
    (
        "no-orchestration-tracing",
        "class FlowOrchestrator:\n    def run(self):\n        return self.steps()\n",
        "class FlowOrchestrator:\n    def run(self):\n        self.logger.info('x')\n        return self.steps()\n",
    ),
    (
        "no-timeout-multi-agent",
        "async def go(self):\n    return await self.coder_agent.run()\n",
        "async def go(self):\n    return await asyncio.wait_for(self.coder_agent.run(), 5)\n",
    ),
    (
        "hardcoded-agent-selection",
        "def pick(kind):\n    if kind == 'code':\n        return CoderAgent()\n",
        "def pick(kind):\n    if kind == 'code':\n        return compiler()\n",
    ),
    (
        "hardcoded-agent-selection",
        "def pick(kind):\n    match kind:\n        case 'code':\n            return CoderAgent()\n",
        "def pick(kind):\n    match kind:\n        case Kind():\n            return CoderAgent()\n",
    ),
    (
        "no-error-propagation",
        "def go():\n    try:\n        step()\n    except Exception as error:\n        print(error)\n",
        "def go():\n    try:\n        step()\n    except Exception as e:\n        raise StepError('step') from e\n",
    ),
    (
        "missing-agent-id",
        "class CoderAgent(Base):\n    def run(self):\n        return 1\n",
        "class CoderAgent(Base):\n    def __init__(self):\n        self.agent_id = new()\n",
    ),
    (
        "global-state-modification",
        "def keep(result):\n    global last\n    last = result\n",
        "def keep(result, state):\n    state.last = result\n",
    ),
    (
        "global-state-modification",
        "def keep(result):\n    os.environ['LAST'] = result\n",
        "def keep(result):\n    return os.environ['LAST']\n",
    ),
]


def rules(path: str, text: str) -> list[str]:
    return [found.rule for found in review(path, text)]


@pytest.mark.parametrize(("rule", "broken", "sound"), SCRIPT)
def test_a_script_that_breaks_a_rule_and_its_twin(rule: str, broken: str, sound: str) -> None:
    assert rule in rules("a.ts", broken)
    assert rule not in rules("a.ts", sound)


@pytest.mark.parametrize(("rule", "broken", "sound"), PYTHON)
def test_python_that_breaks_a_rule_and_its_twin(rule: str, broken: str, sound: str) -> None:
    assert rule in rules("a.py", broken)
    assert rule not in rules("a.py", sound)


def test_both_languages_have_every_rule() -> None:
    assert {row[0] for row in SCRIPT} == {row[0] for row in PYTHON} == set(RULES)
    assert len(RULES) == 10


@pytest.mark.parametrize(("rule", "broken"), [row[:2] for row in SCRIPT])
def test_comments_and_strings_hold_no_findings(rule: str, broken: str) -> None:
    quoted = broken.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")
    for hidden in (f"// {broken}", f"/* {broken} */", f"const text = `{quoted}`;"):
        assert rule not in rules("a.ts", hidden)


def test_what_only_a_comment_promises_does_not_count() -> None:
    text = "async function go(agent) {\n  // TODO: a timeout\n  return await agent.run('timeout');\n}"
    assert rules("a.js", text) == ["no-timeout-multi-agent"]


def test_quoted_names_of_properties_count() -> None:
    assert rules("a.js", "async function go(agent) { return await agent.run({ 'timeout': 5 }); }") == []


def test_code_inside_a_template_counts_and_its_text_does_not() -> None:
    text = "async function go(agent) { return `await agent.text ${await agent.run({ a: `}` })} await agent.end`; }"
    found = review("a.ts", text)
    assert [(one.rule, one.column) for one in found] == [("no-timeout-multi-agent", text.index("${") + 3)]


def test_a_counter_pattern_counts_within_its_own_function_only() -> None:
    text = (
        "async function guarded(agent) { return await agent.run({ timeout: 5 }); }\n"
        "const bare = async (agent) => { return await agent.run(); };\n"
        "class Runner {\n"
        "  slow(agent): Promise<string> { return this.withTimeout(async () => { await agent.run(); }); }\n"
        "  async bare(agent) { await agent.run(); }\n"
        "}\n"
    )
    assert [(found.rule, found.line) for found in review("a.ts", text)] == [
        ("no-timeout-multi-agent", 2),
        ("no-timeout-multi-agent", 5),
    ]


def test_a_pattern_does_not_run_on_into_the_next_function() -> None:
    text = "const a = (list) => {\n  return Promise.all(list)\n}\nconst b = (state) => {\n  return state.ready\n}\n"
    assert "parallel-shared-state" not in rules("a.js", text)


def test_a_finding_names_place_severity_and_fix() -> None:
    (found,) = review("src/é.py", "é = 1\nclass X:\n    def keep(self):\n        'é'; os.environ['A'] = '1'\n")
    assert (found.file, found.line, found.column) == ("src/é.py", 4, 14)
    assert found.severity is Severity.HIGH
    assert found.fix


@pytest.mark.parametrize("text", ["def broken(:\n", "a = '\0'\n", "(" * 5_000, "x = " + "-" * 100_000 + "1"])
def test_python_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(UnreadableSource):
        review("a.py", text)


@pytest.mark.parametrize(
    "text",
    [
        "const s = 'it",
        "`${`${",
        "/* never closed",
        "a / b / c",
        "x = /[/'\"]/; y = 'q'",
        "<p>Don't</p>\n",
        "}}}{",
        "'\\",
    ],
)
def test_the_mask_keeps_length_and_lines(text: str) -> None:
    masked = mask(text)
    assert len(masked.code) == len(masked.named) == len(text)
    assert masked.code.count("\n") == text.count("\n")


@given(st.text(alphabet="a'\"`/*\\${}()\n =", max_size=80))
def test_any_text_can_be_reviewed(text: str) -> None:
    masked = mask(text)
    assert len(masked.code) == len(text)
    assert [at for at, c in enumerate(masked.code) if c == "\n"] == [at for at, c in enumerate(text) if c == "\n"]
    review("a.tsx", text)


def test_a_division_is_no_regular_expression() -> None:
    assert mask("a = b / c; d = 'x' / e").code == "a = b / c; d = ' ' / e"
    assert mask("return /it's/.test(a)").code == "return /    /.test(a)"


def test_severities_are_ordered() -> None:
    assert at_least(Severity.CRITICAL, Severity.HIGH)
    assert at_least(Severity.HIGH, Severity.HIGH)
    assert not at_least(Severity.MEDIUM, Severity.HIGH)


def test_a_large_generated_file_gives_one_finding_per_line_and_rule() -> None:
    text = "function f(a){window.x=a;if(a){return g(a)}}" * 20_000
    assert rules("a.js", text) == ["global-state-modification"]
