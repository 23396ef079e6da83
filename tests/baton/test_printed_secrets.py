"""What commands print holds no password, though nobody knew it; code and prose stay as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.printed_secrets import printed, printed_values

PASSWORD = "Xk29fLqPz81mNv"


@pytest.mark.parametrize(
    "text",
    [
        "could not connect to postgres://app:{}@db.internal/prod",
        "redis://:{}@cache:6379",
        "E   psycopg.OperationalError: host=db password={} user=app",
        "DB_PASSWORD={}",
        "export PGPASSWORD='{}'",
        '{{"user": "app", "password": "{}"}}',
        '{{\\"password\\": \\"{}\\"}}',
        "aws_secret_access_key={}",
        "aws_secret_access_key = '{}'",
        "  password: {}",
        "clientSecret: '{}',",
        "mysql --password={} -u app",
        "GET /login?user=a&token={}&x=1",
        "Settings(api_key='{}', debug=True)",
        "{{'secret_key': '{}'}}",
    ],
)
@pytest.mark.parametrize("password", [PASSWORD, "Tr0ub4dor-and-three"])
def test_a_password_that_is_printed_is_masked_where_it_stands(text: str, password: str) -> None:
    line = text.format(password)
    assert printed(f"first\n{line}\nlast") == f"first\n{text.format('[secret]')}\nlast"
    assert printed_values(line) == {password}
    assert printed(line, harmless={password}) == line


@pytest.mark.parametrize(
    "text",
    [
        "password=None",
        "password: str",
        "def login(password: str = 'changeme') -> None:",
        "token = get_token()",
        "token=get_token2(request)",
        "self.token = config.token_v2.value",
        "login(password=user_password2, other=1)",
        "password = os.environ['DB_PASSWORD_2']",
        "password=$DB_PASSWORD_2 password=${DB_PASSWORD_2}",
        "PASSWORD=<your-password-1>",
        "password=******** password=xxxxxxxx",
        "assert token == 'abc12345678'",
        "SyntaxError: Unexpected token: identifier1 in line 2",
        "passed=12abcdefgh keyword=argument1 monkey: banana123 tokens=12345678a",
        "max_tokens=100000a token_type=bearer123 password_file=/run/secrets/x1 auth_url=https://a1.example",
        "postgres://postgres:postgres@localhost/test https://user@example.org http://localhost:8080/@x",
        "postgres://app:$PASSWORD1@db/x postgres://app:[secret]@db/x",
        "tests/test_login.py::test_password_1 PASSED",
        "the password must have at least 8 characters",
        "primary_key=user_id_12 sort_key: abc12345",
    ],
)
def test_what_is_no_password_stays(text: str) -> None:
    assert printed(text) == text


@given(st.text(alphabet=st.sampled_from("password=: '\"\\\n:/@ab1$Xtoken"), max_size=80))
def test_masking_twice_is_masking_once_and_keeps_the_lines(text: str) -> None:
    once = printed(text)
    assert printed(once) == once
    assert once.count("\n") == text.count("\n")
