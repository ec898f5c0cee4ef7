"""The block of the prompt with what is remembered: rules, the files, unconfirmed lines, more rules.

A line of memory is unconfirmed where no person vouches for it (`unconfirmed.py`), and over where the
day until which it holds has passed (`memory/ends.py`). Starting files are those that a person gets
who has none yet.
"""

from collections.abc import Mapping, Sequence

from langgraph.store.base import Item

from lasting_memory import days
from lasting_memory.agent.file_sections import Block, TextFile, file_text, memory_sections
from lasting_memory.agent.groups import section_on_groups
from lasting_memory.agent.unconfirmed import listed_within, split_unconfirmed
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.memory import ends
from lasting_memory.memory.controls import Controls
from lasting_memory.memory.ends import Day
from lasting_memory.memory.sources import signs_in

_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")
# Unconfirmed lines have this part of the room for memory, beside it.
_UNCONFIRMED_PART = 8


def memory_files(deployment: Deployment) -> list[str]:
    """The files under `/memories/` that every prompt shows; none where there is no memory."""
    if not deployment.has_memory:
        return []
    paths = list(deployment.limits.memory_files)
    if deployment.profile:
        return paths
    return [path for path in paths if path != PROFILE_PATH]


class MemoryBlock:
    """The block of memory of an agent, or of a consolidation.

    `files` are the paths under `/memories/` to show, in this order. `read_keys` are the keys of all
    files that it is made of. A conversation's agent is told more than a consolidation.
    """

    def __init__(
        self, deployment: Deployment, files: Sequence[str], *, in_conversation: bool
    ) -> None:
        self._deployment = deployment
        self._in_conversation = in_conversation
        # Memory may be written by consolidation alone.
        is_in_background = deployment.settings.memory_writes == "background"
        self._leaves_writing = in_conversation and is_in_background
        self._keys = [path.removeprefix("/memories") for path in files]
        self.read_keys = list(self._keys)
        # The profile says whose day it is, also where it is not shown.
        has_profile = deployment.profile is not None and deployment.has_own_memory
        if has_profile and _PROFILE_KEY not in self._keys:
            self.read_keys.append(_PROFILE_KEY)

    def of(
        self, starting_texts: Mapping[str, str], items: Sequence[Item], controls: Controls
    ) -> Block:
        """The block for a person's files of memory, with their controls. Blocks.

        `starting_texts` are those of the starting files, by key.
        """
        texts = dict(starting_texts)
        read_items = dict[str, Item]()
        for item in items:
            if item.key in self.read_keys:
                path = f"/memories{item.key}"
                texts[item.key] = file_text(path, item)
                read_items[item.key] = item
        # Shared memory has no profile, so its days are those of UTC.
        profile = texts.get(_PROFILE_KEY)
        zone = days.zone_of(profile)
        day = Day.now(zone)
        unconfirmed_lines = self._take_out(texts, read_items, day)
        return self._block(texts, unconfirmed_lines, controls, day)

    def _take_out(self, texts: dict[str, str], items: Mapping[str, Item], day: Day) -> list[str]:
        """Takes lines that are over, and unconfirmed ones, out of the texts of stored files.

        It returns the unconfirmed lines, each as a list item with its file, in the order in which
        the files are shown. `texts` and `items` are given by key.
        """
        unconfirmed_lines = list[str]()
        for key in self._keys:
            item = items.get(key)
            if item is None:
                continue
            whole_text = texts[key]
            current_text = whole_text
            if self._deployment.ends:
                current_text = ends.current_text(item, whole_text, day)
            signs = signs_in(item.value)
            texts[key], lines = split_unconfirmed(key, whole_text, signs, current_text)
            for line in lines:
                unconfirmed_lines.append(f"- /memories{key}: {line}")
        return unconfirmed_lines

    def _block(
        self,
        texts: Mapping[str, str],
        unconfirmed_lines: Sequence[str],
        controls: Controls,
        day: Day,
    ) -> Block:
        """The block of memory: rules, the files, unconfirmed lines, more rules.

        `texts` are given by key, without the unconfirmed lines.
        """
        budget = self._deployment.limits.memory_block_bytes
        files = list[TextFile]()
        for key in self._keys:
            if key in texts:
                path = f"/memories{key}"
                files.append(TextFile(path, texts[key]))
        file_sections, omissions = memory_sections(files, budget)
        if unconfirmed_lines:
            section = self._section_on_unconfirmed(unconfirmed_lines, budget)
            file_sections = f"{file_sections}\n\n{section}"
        parts = self._rules_before()
        parts.append(self._section_on_files(file_sections, day))
        parts += self._rules_behind(controls)
        text = "\n".join(parts)
        is_read_only = self._is_read_only(controls)
        return Block("memory", text, budget, omissions, is_read_only)

    def _section_on_files(self, files: str, day: Day) -> str:
        """The section with the files, in the form of `memory_sections`, and the person's day."""
        section = self._deployment.prompt("memory_block.md")
        today = f"{day.today:%A, %Y-%m-%d} ({day.zone.key})"
        section = section.replace("{today}", today)
        # The files last: what stands in them is never a place to fill.
        return section.replace("{files}", files or "(Nothing is remembered yet.)")

    def _section_on_unconfirmed(self, lines: Sequence[str], budget: int) -> str:
        """The section of unconfirmed lines. `budget` is the bytes of the whole block of memory."""
        room = budget // _UNCONFIRMED_PART
        lines_within_room = listed_within(lines, room)
        section = self._deployment.prompt("memory_unconfirmed.md")
        section = section.replace("{lines}", lines_within_room)
        return section.strip()

    def _rules_before(self) -> list[str]:
        """What stands before memory: that it is shared, or that this agent does not write it.

        Nothing of an agent that writes its person's own memory.
        """
        if self._deployment.memory.is_shared:
            return [self._deployment.prompt("memory_shared.md")]
        if self._leaves_writing:
            return [self._deployment.prompt("memory_read_only.md")]
        return []

    def _rules_behind(self, controls: Controls) -> list[str]:
        """What stands behind memory: whose the folders of groups are, and that writes are paused, or
        wait for the person's review.
        """
        rules = list[str]()
        groups = section_on_groups(self._deployment)
        if groups and self._in_conversation:
            rules.append(groups)
        is_writer = self._in_conversation and not self._leaves_writing
        if controls.paused:
            rules.append(self._deployment.prompt("paused_block.md"))
        elif controls.review_agent and is_writer:
            rules.append(self._deployment.prompt("reviewed_block.md"))
        return rules

    def _is_read_only(self, controls: Controls) -> bool:
        """Whether this run may not write memory. A consolidation always may."""
        if not self._in_conversation:
            return False
        if controls.paused:
            return True
        d = self._deployment
        return d.memory.rule(d.settings) == "deny"
