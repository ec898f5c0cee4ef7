"""`lasting-memory`: what a fork's machine runs, as one command on every system.

uv run lasting-memory dev

`lasting-memory --help` lists the commands. Each takes `--help`.
"""

import argparse
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from lasting_memory import settings
from lasting_memory.dev import checks, processes

# An exit code, or the reason of a failure in one line.
Outcome = int | str | None
Arguments = Sequence[str]

_USAGE = 2  # the exit code of argparse where it is called wrongly


def dev(arguments: Arguments, *, server: str = "server") -> Outcome:
    """run the server and seed it (--port); it takes .env, or makes it from .env.example"""
    if {"--help", "-h"}.intersection(arguments):
        return _main_of(server, arguments)
    settings.project_config(Path())
    if Path(".env.example").exists() and not Path(".env").exists():
        shutil.copyfile(".env.example", ".env")
    code = processes.run([sys.executable, "-m", "lasting_memory.dev.preflight"])
    if code:
        return code
    return _main_of(server, arguments)


def dev_postgres(arguments: Arguments) -> Outcome:
    """the same, with memory and checkpoints in Postgres (MEMORY_POSTGRES_URI, or an embedded one)"""
    return dev(["--postgres", *arguments])


def dev_aegra(arguments: Arguments) -> Outcome:
    """the same on aegra, with Postgres and Redis and no licence (--port, --processes)"""
    return dev(arguments, server="aegra")


def chat(arguments: Arguments) -> Outcome:
    """talk to it in the terminal (--as, --org; or TOKEN= of an identity provider; --url)"""
    return _main_of("chat", arguments)


def seed(arguments: Arguments) -> Outcome:
    """put policies and skills into a deployment (--url, --prune; TOKEN= of an operator)"""
    settings.project_config(Path())
    token = settings.given_token()
    if token and "--token" not in arguments:
        arguments = ["--token", *arguments]
    command = [sys.executable, "-m", "seeds", *arguments]
    return processes.run(command, stdin=f"{token}\n" if token else None)


def smoke(arguments: Arguments) -> Outcome:
    """try a deployment as somebody without memory (--url, TOKEN=), and delete what that made"""
    return _main_of("smoke", arguments)


def forget(arguments: Arguments) -> Outcome:
    """delete all of a person who left: forget USER ORG (--url; TOKEN= of an operator)"""
    return _main_of("forget", arguments)


def check(arguments: Arguments) -> Outcome:
    """lint and types; the engine's too while it is a folder"""
    _no_arguments("check", arguments)
    return checks.check()


def test(arguments: Arguments) -> Outcome:
    """check, the tests of this fork, and the engine's (but the long proofs) while it is a folder"""
    return checks.test(template=_wants_template("test", arguments))


def test_mine(arguments: Arguments) -> Outcome:
    """the tests of this fork alone"""
    _no_arguments("test-mine", arguments)
    return checks.test_fork()


def test_fast(arguments: Arguments) -> Outcome:
    """the engine's tests without a server, Postgres or a browser, for the inner loop"""
    return checks.test_quick(template=_wants_template("test-fast", arguments))


def proof(arguments: Arguments) -> Outcome:
    """the same as test, with the engine's long proofs"""
    return checks.proof(template=_wants_template("proof", arguments))


def judge_model(arguments: Arguments) -> Outcome:
    """judge the model in .env by the cases of evals/"""
    _no_arguments("eval", arguments)
    return checks.judge_model()


def upgrade(arguments: Arguments) -> Outcome:
    """pin the newest releases that fit together (needs uv and the network); then test"""
    parser = argparse.ArgumentParser(prog="lasting-memory upgrade")
    parser.add_argument(
        "--beyond-bounds",
        action="store_true",
        help="also releases that the engine's upper bounds exclude, to see what breaks",
    )
    args = parser.parse_args(arguments)
    settings.project_config(Path())
    options = ["--beyond-bounds"] if args.beyond_bounds else []
    return _main_of("upgrade", options)


def upgrade_engine(arguments: Arguments) -> Outcome:
    """use another engine: a folder or a wheel (--dry-run); says what changes for this fork"""
    parser = argparse.ArgumentParser(prog="lasting-memory upgrade-engine")
    parser.add_argument("source", metavar="FROM", help="a folder or a wheel of another engine")
    parser.add_argument("--dry-run", action="store_true", help="say it, and change nothing")
    args = parser.parse_args(arguments)
    options = ["--dry-run"] if args.dry_run else []
    _main_of("upgrade", [*options, "--", args.source])
    if not args.dry_run:
        print("Now install it, and run the tests: uv sync && uv run lasting-memory test-mine")  # noqa: T201  # a command's answer
    return None


COMMANDS: dict[str, Callable[[Arguments], Outcome]] = {
    "dev": dev,
    "dev-postgres": dev_postgres,
    "dev-aegra": dev_aegra,
    "chat": chat,
    "seed": seed,
    "smoke": smoke,
    "forget": forget,
    "check": check,
    "test": test,
    "test-mine": test_mine,
    "test-fast": test_fast,
    "proof": proof,
    "eval": judge_model,
    "upgrade": upgrade,
    "upgrade-engine": upgrade_engine,
}


def _main_of(module: str, arguments: Arguments) -> Outcome:
    """Runs `main` of a module of this package, which is loaded only now. Raises `MissingToolError`
    where it lacks a library.
    """
    try:
        loaded_module = import_module(f"lasting_memory.dev.{module}")
    except ModuleNotFoundError as error:
        raise checks.MissingToolError(
            f"{error.name} is not in {sys.prefix}; install lasting-memory[dev], e.g. with `uv sync`."
        ) from None
    outcome: Outcome = loaded_module.main(arguments)
    return outcome


def _no_arguments(name: str, arguments: Arguments) -> None:
    """Exit if a command that takes no arguments has some, or answer its `--help`."""
    argparse.ArgumentParser(prog=f"lasting-memory {name}").parse_args(arguments)
    settings.project_config(Path())


def _wants_template(name: str, arguments: Arguments) -> bool:
    """Whether a command is given `--template`. Exits for other arguments."""
    parser = argparse.ArgumentParser(prog=f"lasting-memory {name}")
    parser.add_argument(
        "--template", action="store_true", help="hold this folder to the template as it is shipped"
    )
    is_wanted: bool = parser.parse_args(arguments).template
    settings.project_config(Path())
    return is_wanted


def _help() -> str:
    """The list of the commands, a line for each."""
    lines = ["What a fork's machine runs. Each command takes --help.", ""]
    for name, command in COMMANDS.items():
        lines.append(f"  {name:<16}{command.__doc__}")
    return "\n".join(lines)


def main() -> None:
    """The command. Exits with the code of the tool that ran, or with one line that says the fix."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in {"--help", "-h"}:
        print(_help())  # noqa: T201  # a command's answer
        return
    if name not in COMMANDS:
        print(  # noqa: T201
            f"lasting-memory has no command {name!r}; use one of {', '.join(COMMANDS)}.",
            file=sys.stderr,
        )
        sys.exit(_USAGE)
    try:
        sys.exit(COMMANDS[name](sys.argv[2:]))
    except (settings.SettingsError, checks.MissingToolError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(processes.INTERRUPTED)


if __name__ == "__main__":
    main()
