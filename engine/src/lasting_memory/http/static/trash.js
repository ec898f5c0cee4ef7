// What was deleted, and the way back.

import { ForGood } from "./forgood.js";
import { html, useState } from "./lib/preact.js";
import { Dialog, useAct, useTold } from "./parts.js";
import { author, when } from "./text.js";
import { t } from "./texts.js";
import { Inline, lineFor, titleOf } from "./words.js";

export function Trash({ session, onClose }) {
  const { client, memory } = session;
  const { told, problem } = useTold(client, "/memory/trash", {}, memory.version);
  const [refused, act] = useAct();
  const [note, setNote] = useState("");
  const [leaving, setLeaving] = useState(null); // a line that is deleted for good
  const gone = () => (setLeaving(null), setNote(t("for_good.done")));
  const back = (note, work) => act(() => work().then(() => setNote(note)));
  const file = ({ path, changes, at, author: by }) => {
    const undo = () => memory.undo({ path, changes });
    return html`<li key=${path}><h4 dir="auto">${titleOf(memory, path)}</h4><p class="quiet">${path}</p>
      <p class="quiet">${t("trash.deleted_by", { author: author(by), when: when(at) })}</p>
      <button aria-label=${t("trash.bring_back_path", { path })} onClick=${back(t("trash.back", { what: path }), undo)}>${t("trash.bring_back")}</button></li>`;
  };
  const line = ({ path, text, at, author: by }) => html`<li key=${`${path} ${text}`}><p class="fact" dir="auto"><${Inline} text=${lineFor(path, text)} /></p>
    <p class="quiet">${t("trash.taken_by", { path: titleOf(memory, path), author: author(by), when: when(at) })}</p>
    <button aria-label=${t("trash.bring_back_line", { text })} onClick=${back(t("trash.line_back"), () => memory.add(path, text))}>${t("trash.bring_back")}</button>
    <button aria-label=${t("for_good.open_line", { text })} onClick=${() => setLeaving({ path, text })}>${t("for_good.open")}</button></li>`;
  const isEmpty = told && !told.files.length && !told.lines.length;
  return html`<${Dialog} title=${t("trash.title")} problem=${refused || problem} onClose=${onClose}>
    <p>${t("trash.about")}</p>
    <p class="quiet status" role="status">${!refused && note}</p>
    ${isEmpty && html`<p class="quiet">${t("trash.empty")}</p>`}
    ${told?.lines.length > 0 && html`<h3>${t("trash.lines")}</h3><ul class="trash" aria-label=${t("trash.deleted_lines")}>${told.lines.map(line)}</ul>`}
    ${told?.files.length > 0 && html`<h3>${t("trash.files")}</h3><ul class="trash" aria-label=${t("trash.deleted_files")}>${told.files.map(file)}</ul>`}
    ${leaving && html`<${ForGood} session=${session} ...${leaving} onDone=${gone} onClose=${() => setLeaving(null)} />`}
  <//>`;
}
