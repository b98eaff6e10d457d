"""Names of environment variables that a command is not given: they make programs load or run something else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

BEGINNINGS: Final = (
    "LD_", "DYLD_", "PYTHON", "PERL5", "PERL_", "BASH_FUNC_", "GIT_CONFIG", "MALLOC_", "OPENSSL_", "NPM_CONFIG_",
    "DOTNET_", "CORECLR_", "COR_", "LUA_INIT", "LUA_PATH", "LUA_CPATH", "RUBY",
)  # fmt: skip
NAMES: Final = frozenset({
    # what the C library loads, or lets itself be told
    "GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS",
    "RESOLV_HOST_CONF", "TZDIR",
    # what shells run or split by
    "BASH_ENV", "BASH_LOADABLES_PATH", "BASH_XTRACEFD", "BASHOPTS", "CDPATH", "ENV", "FPATH", "GLOBIGNORE", "IFS",
    "PROMPT_COMMAND", "PS0", "PS4", "SHELLOPTS", "ZDOTDIR",
    # what interpreters load before the program
    "CLASSPATH", "GEM_HOME", "GEM_PATH", "JAVA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS",
    "NODE_OPTIONS", "NODE_PATH", "PERLLIB", "PHPRC", "PHP_INI_SCAN_DIR", "R_ENVIRON", "R_PROFILE", "TCLLIBPATH",
    # programs that others start
    "EDITOR", "GIT_ASKPASS", "GIT_EDITOR", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_TEMPLATE_DIR", "LESSCLOSE", "LESSOPEN", "MANPAGER",
    "PAGER", "SSH_ASKPASS", "SUDO_ASKPASS", "VISUAL", "BROWSER", "CVS_RSH", "RSYNC_RSH", "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    # options that programs take as if they stood on their line
    "EXINIT", "GNUMAKEFLAGS", "GRADLE_OPTS", "MAKEFLAGS", "MAVEN_OPTS", "TAR_OPTIONS", "VIMINIT",
    # what toolkits load
    "GIO_EXTRA_MODULES", "GTK_MODULES", "QT_PLUGIN_PATH",
})  # fmt: skip


def refused(names: Iterable[str]) -> str | None:
    """The first of them, in order, that a command is not given."""
    for name in sorted(names):
        if name.upper() in NAMES or name.upper().startswith(BEGINNINGS):
            return name
    return None
