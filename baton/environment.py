"""The environment variables that hold credentials of ours, and those that commands of a task may see: an allow-list of
what the caller has.

Commands come from a language model or a repository, so what they can read they may also print. What is not named
here does not reach them, and so does nothing that looks like a credential.
"""

import re
from collections.abc import Mapping

MODEL_CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")
"""Credentials of the model's API; they belong together."""
COLLECTOR_CREDENTIALS = (
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
)
"""A collector's credentials; the other `OTEL_*` variables are none."""

# fmt: off
NAMES = frozenset((
    "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "VIRTUAL_ENV", "PIP_CACHE_DIR", "UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR", "POETRY_HOME", "NODE_ENV",
    "NODE_PATH", "NPM_CONFIG_PREFIX", "PNPM_HOME", "COREPACK_HOME", "BUN_INSTALL", "DENO_DIR",
    "PLAYWRIGHT_BROWSERS_PATH", "GOPATH", "GOROOT", "GOCACHE", "GOMODCACHE", "GOFLAGS", "CARGO_HOME",
    "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "CC", "CXX", "PKG_CONFIG_PATH", "JAVA_HOME", "M2_HOME", "MAVEN_HOME",
    "GRADLE_HOME", "GRADLE_USER_HOME", "ANDROID_HOME", "KOTLIN_HOME", "SCALA_HOME", "DOTNET_ROOT",
    "GEM_HOME", "GEM_PATH", "BUNDLE_PATH",
))
# fmt: on
PREFIXES = ("LC_", "CONDA_", "NVM_", "PYENV_", "RBENV_", "ASDF_", "MISE_", "SDKMAN_", "VOLTA_", "FNM_")
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/\s]*@")


def allowed_environment(base: Mapping[str, str]) -> dict[str, str]:
    """What of `base` may travel with a task; PATH as it is, for the worker to take its own environment off."""
    return {name: value for name, value in base.items() if name == "PATH" or _allowed(name, value)}


def _allowed(name: str, value: str) -> bool:
    named = name in NAMES or name.startswith(PREFIXES)
    return named and not _SECRET_NAME.search(name) and not _SECRET_VALUE.search(value)
