"""`python -m seeds`: what it puts into a deployment, once, and what it refuses to."""

import re
import shutil
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from langgraph_sdk.client import LangGraphClient

from lasting_memory import seeding as command
from lasting_memory.deployment import Change, Deployment, Limits
from lasting_memory.memory.validation import MAX_FILE_BYTES, RefusedWrite
from lasting_memory.people import identity, namespaces
from lasting_memory.people.namespaces import Namespace
from lasting_memory.people.scopes import ROUTES, group
from lasting_memory.settings import PARTLY_SEEDED, Settings
from lasting_memory.testing.deployed import PROJECT, deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.hostile import BOMB, skill
from lasting_memory.testing.people import AGENT, Person
from lasting_memory.testing.scripted_anthropic import system_text
from tests.conftest import served

SKILLS = list(namespaces.skills(AGENT))


server = served(DAILY_TOKENS="0")  # one whose policies and skills no other test has


def put(file: Path, text: str | bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Policies and seeds of the tests' own, which a test may change."""
    samples = {
        "policies/acme/compliance.md": "# Acme compliance\n\n1. Be kind.\n",
        "seeds/memories/preferences.md": "# Preferences\n",
        "seeds/skills/decision-memo/SKILL.md": skill("", name="decision-memo"),
        "seeds/skills/meeting-notes/SKILL.md": skill("", name="meeting-notes"),
    }
    for path, text in samples.items():
        put(tmp_path / path, text)
    return tmp_path


@pytest.fixture
def client(server: DevServer) -> LangGraphClient:
    return server.as_operator()


async def seed(
    repository: Path,
    client: LangGraphClient,
    *parts: str,
    settings: Deployment | None = None,
    prune: bool = False,
) -> list[str]:
    deployment = replace(settings or deployed(), folder=repository)
    return await command.seed(client, parts or command.PARTS, deployment, prune=prune)


async def keys(client: LangGraphClient, namespace: list[str]) -> set[str]:
    return {
        str(item["key"])
        for item in (await client.store.search_items(namespace, limit=100))["items"]
    }


@pytest.mark.server
async def test_policies_and_skills_are_put_where_agents_read(
    client: LangGraphClient, repository: Path, ada: Person
) -> None:
    second = (await client.assistants.create("agent", name="second"))["assistant_id"]
    assert await seed(repository, client)
    assert await keys(client, ["policies", "acme"]) == {"/compliance.md"}
    for namespace in (SKILLS, list(namespaces.skills(second))):
        assert await keys(client, namespace) == {
            "/decision-memo/SKILL.md",
            "/meeting-notes/SKILL.md",
        }
    assert await seed(repository, client) == []
    await client.assistants.delete(second)

    (repository / "policies/acme/compliance.md").write_text("# New rules\n")
    assert await seed(repository, client) == ["policies/acme/compliance.md: updated"]
    await ada.say("What are the policies?")
    assert "# New rules" in system_text(ada.model.requests[-1])


@pytest.mark.server
async def test_prune_alone_removes_what_the_repository_no_longer_has(
    client: LangGraphClient, repository: Path
) -> None:
    put(repository / "policies/gone org/rule.md", "x")
    await seed(repository, client)
    shutil.rmtree(repository / "policies/gone org")
    shutil.rmtree(repository / "seeds/skills/decision-memo")
    memory = ["memories", "acme:keeper"]
    await client.store.put_item(memory, "/a.md", {"content": "mine", "encoding": "utf-8"})
    assert await seed(repository, client) == []
    lines = await seed(repository, client, prune=True)
    assert lines == [
        "policies/gone~20org/rule.md: deleted",
        f"skills/{SKILLS[1]}/decision-memo/SKILL.md: deleted",
    ]
    assert await keys(client, memory) == {"/a.md"}


@pytest.mark.server
async def test_a_check_of_changes_sees_what_a_skill_was_before_and_may_keep_it(
    client: LangGraphClient, repository: Path
) -> None:
    file, seen = repository / "seeds/skills/decision-memo/SKILL.md", list[Change]()

    def keeps_memos(change: Change) -> None:
        seen.append(change)
        if (
            change.path == "/skills/decision-memo/SKILL.md"
            and change.before
            and change.after != change.before
        ):
            raise RefusedWrite("Memos stay as they are.")

    await seed(repository, client)
    before, checked = file.read_text(), replace(deployed(), checks=[keeps_memos])
    assert await seed(repository, client, "skills", settings=checked) == []
    file.write_text(before + "\nMore.\n")
    with pytest.raises(
        command.SeedError, match=r"decision-memo/SKILL\.md cannot be seeded\. Memos stay"
    ):
        await seed(repository, client, "skills", settings=checked)
    assert (before, before + "\nMore.\n") in {(change.before, change.after) for change in seen}
    shutil.rmtree(file.parent)
    with pytest.raises(
        command.SeedError, match=r"decision-memo/SKILL\.md cannot be seeded\. Memos stay"
    ):
        await seed(repository, client, "skills", settings=checked, prune=True)
    assert "/decision-memo/SKILL.md" in await keys(client, SKILLS)


@pytest.mark.server
async def test_checks_judge_policies_and_are_told_nothing_wrong_of_what_is_there(
    client: LangGraphClient, repository: Path
) -> None:
    await seed(repository, client)
    seen = list[Change]()
    put(repository / "policies/checked/rule.md", "one")

    def only_new(change: Change) -> None:
        seen.append(change)
        if change.path == "/policies/rule.md" and "secret" in (change.after or ""):
            raise RefusedWrite("No secrets.")

    checked = replace(deployed(), checks=[only_new])
    assert "policies/checked/rule.md: added" in await seed(repository, client, settings=checked)
    put(repository / "policies/checked/rule.md", "a secret")
    with pytest.raises(
        command.SeedError, match=r"/policies/rule\.md cannot be seeded\. No secrets"
    ):
        await seed(repository, client, settings=checked)
    shared = [change for change in seen if not change.path.startswith("/memories/")]
    assert {(change.path, change.before, change.after) for change in shared} == {
        ("/policies/rule.md", None, "one"), ("/policies/rule.md", "one", "a secret"),
    }, "of skills that stay as they are nothing is told"  # fmt: skip


TEAMS = Deployment(PROJECT, Settings(), routes={**ROUTES, "/team/": group("team_id")})


@pytest.mark.server
@pytest.mark.parametrize(("settings", "folder", "place"), [
    (deployed(), "acme/dana%40example.com", ["memories", "acme:dana@example~2Ecom"]),
    (TEAMS, "_groups/team/acme/red%20&%20blue", ["groups", "acme:team_id:red~20~26~20blue"]),
])  # fmt: skip
async def test_named_people_and_groups_get_first_memories_and_keep_their_own(
    client: LangGraphClient, repository: Path, settings: Deployment, folder: str, place: list[str]
) -> None:
    put(repository / "seeds/memories" / folder / "preferences.md", "- formal tone\n")
    put(repository / "seeds/memories" / folder / "topics/work.md", "Runs the depot.\n")
    await client.store.put_item(
        place, "/preferences.md", {"content": "- hers", "encoding": "utf-8"}
    )
    assert await seed(repository, client, "memories", settings=settings) == [
        f"{'/'.join(place)}/topics/work.md: added"
    ]
    assert await seed(repository, client, "memories", settings=settings, prune=True) == []
    assert (await client.store.get_item(place, key="/preferences.md"))["value"][
        "content"
    ] == "- hers"


@pytest.mark.server
async def test_the_cron_follows_the_schedule_and_acts_as_an_operator(
    client: LangGraphClient,
) -> None:
    """Whoever's key made it: here a LangSmith key, and OPERATORS is empty."""
    ids = list[str]()
    for schedule, zone in (
        ("0 3 * * *", "UTC"),
        ("0 3 * * *", "UTC"),
        ("0 * * * *", "UTC"),
        ("0 * * * *", "Asia/Tokyo"),
    ):
        settings = deployed(consolidation_schedule=schedule, consolidation_timezone=zone)
        await seed(PROJECT, client, "cron", settings=settings)
        (cron,) = await client.crons.search(limit=10)
        ids.append(cron["cron_id"])
        assert (cron["schedule"], cron["timezone"]) == (schedule, zone)
        assert (
            identity.OPERATE
            in cron["payload"]["config"]["configurable"]["langgraph_auth_user"]["permissions"]
        )
        assert "context" not in cron["payload"], "it names nobody"
    assert [ids.index(each) for each in ids] == [0, 0, 2, 3]
    await client.crons.update(cron["cron_id"], config={"tags": ["mine"]})
    (cron,) = await client.crons.search(metadata=command.CRON_MARK)
    assert (
        identity.OPERATE
        in cron["payload"]["config"]["configurable"]["langgraph_auth_user"]["permissions"]
    )
    await seed(PROJECT, client, "cron")
    assert await client.crons.search(limit=10) == []


@pytest.mark.server
async def test_an_invalid_seed_is_named_and_nothing_is_written(
    server: DevServer, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(repository / "policies/acme/new.md", "must not be written")
    monkeypatch.setattr(sys, "argv", ["seeds", "--url", server.url])

    async def refused() -> str:
        said = str(await command._main(replace(deployed(), folder=repository)))
        assert said.endswith(" Nothing was written.")
        assert "\n" not in said
        assert "/new.md" not in await keys(server.as_operator(), ["policies", "acme"])
        return said

    put(repository / "seeds/skills/letters/SKILL.md", BOMB)
    put(repository / ".env", "KEY=1")
    link = repository / "policies/acme/x.md"
    link.symlink_to("../../.env")
    assert (await refused()).startswith(f"{link} is a link; ")
    put(repository / "policies/acm%65/new.md", "of the same organization")
    both = await refused()
    assert f"policies/acm%65 and {repository}/policies/acme both spell 'acme'; " in both
    assert f"{link} is a link; " in both
    assert f"{repository}/seeds/skills/letters/SKILL.md cannot be seeded. " in both, (
        "all that is wrong is named at once"
    )


@pytest.mark.server
async def test_a_file_that_cannot_be_seeded_is_named_and_the_rest_is_put_in(
    client: LangGraphClient,
    server: DevServer,
    repository: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await seed(repository, client)
    put(
        repository / "seeds/skills/meeting-notes/SKILL.md", "# No fields"
    )  # as it was there, it stays
    put(
        repository / "seeds/skills/letters/SKILL.md",
        "---\nname: letters\ndescription: Use when: it is late\n---\n",
    )
    put(repository / "seeds/skills/letters/envelope.md", "Of a skill that has no SKILL.md.")
    put(repository / "seeds/skills/memos/skill.md", "---\nname: memos\ndescription: d\n---\n")
    put(repository / "seeds/skills/maps/SKILL.md", "---\nname: maps\ndescription: d\n---\n")
    put(repository / "seeds/skills/maps/world.svg", "x" * (MAX_FILE_BYTES + 1))
    put(repository / "seeds/skills/maps/node_modules/left-pad/index.js", "x")
    put(repository / "policies/mixed/good.md", "Be kind.")
    put(repository / "policies/mixed/RULES.MD", "x")
    put(repository / "policies/mixed/notes.txt", "x")
    put(repository / "policies/mixed/secret.md", "Use the card 4111 1111 1111 1111.")
    put(repository / "policies/lonely.md", "x")
    monkeypatch.setattr(sys, "argv", ["seeds", "--url", server.url, "--prune"])
    with pytest.raises(SystemExit) as ended:
        await command._main(replace(deployed(), folder=repository))
    assert ended.value.code == PARTLY_SEEDED
    assert await keys(client, ["policies", "mixed"]) == {"/good.md"}
    assert await keys(client, SKILLS) == {
        "/decision-memo/SKILL.md",
        "/meeting-notes/SKILL.md",
        "/maps/SKILL.md",
    }, "of a skill that cannot be read what is there stays, also with --prune"
    output = capsys.readouterr()
    for named in (
        "meeting-notes/SKILL.md cannot be seeded. /skills/meeting-notes/SKILL.md is no valid skill: line 1 is '# No fields'",
        "skills/letters/SKILL.md is no valid skill: line 3: the value of description has a colon and a space in it;",
        "skills/memos has no SKILL.md; rename skill.md.",
        "policies/mixed/secret.md cannot be seeded. ",
    ):
        assert named in output.err
    for named in (
        f"maps/world.svg is skipped: it has {MAX_FILE_BYTES + 1:,} bytes",
        "policies/mixed/RULES.MD is skipped: the name of a policy ends in .md.",
        "policies/mixed/notes.txt is skipped",
        "policies/lonely.md is skipped: put it into the folder of an organization.",
    ):
        assert named in output.out
    assert "node_modules" not in output.out + output.err


@pytest.mark.server
async def test_a_policy_that_no_prompt_shows_is_named(
    client: LangGraphClient, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(repository / "policies/long/a.md", "a" * 20_000)
    put(repository / "policies/long/b.md", "b" * 20_000)
    put(repository / "policies/long/c.md", "c" * 100)
    put(repository / "policies/long/more/d.md", "d")
    await seed(repository, client, "policies")
    printed = capsys.readouterr().out
    named = re.findall(
        r"^policies/long: no prompt shows (\S+): (\d[\d,]* bytes)?", printed, re.MULTILINE
    )
    assert named == [
        ("/policies/b.md", "7,232 bytes"),
        ("/policies/c.md", "100 bytes"),
        ("/policies/more/d.md", ""),
    ]


closed = served({"auth": {"disable_studio_auth": True}}, OPERATORS="root")


@pytest.mark.server
async def test_an_operator_s_token_seeds_where_nobody_comes_in_as_studio(
    closed: DevServer, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, token, said in (
        ([], "", "answered 401"),
        (["--token"], "dev:acme:alice", "answered 403"),
        (["--token"], "dev:acme:root", "None"),
    ):
        monkeypatch.setattr(sys, "argv", ["seeds", "--url", closed.url, *arguments])
        monkeypatch.setattr(sys, "stdin", StringIO(token))
        assert said in str(await command._main(replace(deployed(), folder=repository)))
    assert "/compliance.md" in await keys(closed.as_user("root"), ["policies", "acme"])


def test_a_person_s_seed_is_never_put_into_shared_memory(repository: Path) -> None:
    put(repository / "seeds/memories/acme/dana/private.md", "Dana's own.\n")
    deployment = replace(deployed(memory_scope="assistant"), folder=repository)
    assert command.folder_files(deployment, ["memories"], [AGENT]) == {}


def test_the_folder_of_no_group_is_named(repository: Path) -> None:
    (repository / "seeds/memories/_groups/crew/acme/red").mkdir(parents=True)
    with pytest.raises(
        command.SeedError, match=r'_groups/crew is the folder of no group; add "/crew/": group\('
    ):
        command.folder_files(replace(TEAMS, folder=repository), ["memories"], [])


PLACES = [
    "policies", "policies/acme", "policies/acme/compliance.md", "policies/acme/deeper", "policies/acme/notes.txt",
    "seeds", "seeds/skills", "seeds/skills/letters", "seeds/skills/meeting-notes/SKILL.md", "seeds/skills/meeting-notes/x.bin",
    "seeds/memories", "seeds/memories/first.md", "seeds/memories/acme", "seeds/memories/acme/dana",
    "seeds/memories/acme/dana/a.md", "seeds/memories/_groups", "seeds/memories/_groups/team/acme/red",
    "seeds/memories/_groups/team/acme/red/a.md",
]  # fmt: skip


@pytest.mark.parametrize("target", ["file", "folder", "nowhere"])
@pytest.mark.parametrize("place", PLACES)
def test_a_link_is_refused_wherever_it_stands(repository: Path, place: str, target: str) -> None:
    """It may lead to `.env`, and what is seeded everybody reads."""
    put(repository / "file", "KEY=1")
    put(repository / "folder/secret.md", "KEY=1")
    link = repository / place
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(repository / target)
    with pytest.raises(command.SeedError, match=rf"^{re.escape(str(link))} is a link; .*$"):
        command.folder_files(replace(TEAMS, folder=repository), command.PARTS, [AGENT])


def test_hidden_files_are_not_seeded(repository: Path) -> None:
    def seeded() -> set[tuple[Namespace, str, str]]:
        found = command.folder_files(replace(TEAMS, folder=repository), command.PARTS, [AGENT])
        return {
            (place, key, value["content"])
            for place, files in found.items()
            for key, value in files.items()
        }

    put(repository / "seeds/memories/acme/dana/a.md", "x")
    before = seeded()
    for place in (
        "policies",
        "policies/acme",
        "seeds/skills",
        "seeds/skills/meeting-notes",
        "seeds/memories",
        "seeds/memories/acme",
    ):
        put(repository / place / ".DS_Store", b"\xff")
        put(repository / place / ".obsidian/workspace.md", b"\xff")
        put(repository / place / ".git/config.md", "x")
        (repository / place / ".hidden.md").symlink_to("../.env")
    put(repository / "seeds/skills/meeting-notes/__pycache__/a.pyc", b"\xff")
    assert seeded() == before
    assert len(before) == 5


@pytest.mark.parametrize(("folder", "first", "second"), [
    ("policies", "acme", "acm%65"),
    ("policies", "caf%C3%A9", "café"),
    ("policies", "a b", "a%20b"),
    ("seeds/memories", "acme", "%61cme"),
    ("seeds/memories/acme", "dana@x.example", "dana%40x.example"),
    ("seeds/memories/_groups/team", "acme", "acm%65"),
    ("seeds/memories/_groups/team/acme", "red", "re%64"),
])  # fmt: skip
def test_two_folders_of_one_name_are_both_named(
    repository: Path, folder: str, first: str, second: str
) -> None:
    for name in (first, second):
        put(repository / folder / name / "deeper/a.md", "x")
    with pytest.raises(command.SeedError) as named:
        command.folder_files(replace(TEAMS, folder=repository), command.PARTS, [AGENT])
    assert all(str(repository / folder / name) in str(named.value) for name in (first, second))


@pytest.mark.parametrize("name", ["%FF", "%00", "%ED%A0%80"])
def test_a_folder_that_nobody_s_name_spells_is_named(repository: Path, name: str) -> None:
    put(repository / "policies" / name / "a.md", "x")
    with pytest.raises(command.SeedError, match=f"policies/{name} spells no name"):
        command.folder_files(replace(deployed(), folder=repository), command.PARTS, [])


@pytest.mark.parametrize("limits", [Limits(max_files=2), Limits(max_bytes=20)])
def test_a_seed_of_more_than_a_memory_may_hold_is_refused(repository: Path, limits: Limits) -> None:
    for name in ("a.md", "b.md"):
        put(repository / "seeds/memories/acme/dana" / name, "12345678")
    with pytest.raises(
        command.SeedError, match=r"seeds/memories/acme/dana has 3 files with .* for one person"
    ):
        command.folder_files(
            replace(deployed(), folder=repository, limits=limits), ["memories"], [AGENT]
        )


BROKEN = "seeds/skills/broken/SKILL.md"
BAD_FILES: list[tuple[str, str | bytes]] = [
    ("seeds/memories/profile.json", '{"nickname": "Al"}'),
    ("seeds/memories/acme/dana/notes.md", "AKIAABCDEFGHIJKLMNOP"),
    ("seeds/memories/notes.md", "a NUL: \x00"),
    ("policies/acme/bad.md", b"\xff\xfe"),
    ("policies/acme/pay.md", "Use the card 4111 1111 1111 1111."),
    ("seeds/skills/meeting-notes/data.bin", b"\xff AKIAABCDEFGHIJKLMNOP"),
    (BROKEN, "# Skill"),
    (BROKEN, BOMB),
]


@pytest.mark.parametrize(("path", "text"), BAD_FILES, ids=lambda value: str(value)[:40])
def test_a_seed_that_could_not_be_written_is_named(
    repository: Path, path: str, text: str | bytes
) -> None:
    put(repository / path, text)
    with pytest.raises(
        command.SeedError, match=rf"{re.escape(path)} (cannot be seeded\. |is not UTF-8)"
    ) as named:
        command.folder_files(replace(deployed(), folder=repository), command.PARTS, [])
    assert "\n" not in str(named.value)
