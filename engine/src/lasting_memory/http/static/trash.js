// What was deleted, and the way back.

import { html, useState } from "./lib/preact.js";
import { Dialog, useAct, useTold } from "./parts.js";
import { author, when } from "./text.js";

export function Trash({ session: { client, memory }, onClose }) {
  const { told, problem } = useTold(client, "/memory/trash", {}, memory.version);
  const [refused, act] = useAct();
  const [note, setNote] = useState("");
  const back = (what, work) => act(() => work().then(() => setNote(`${what} is back.`)));
  const file = ({ path, changes, at, author: by }) => {
    const undo = () => memory.undo({ path, changes });
    return html`<li key=${path}><h4>${path}</h4><p class="quiet">Deleted by ${author(by)}, ${when(at)}</p>
      <button aria-label=${`Bring back ${path}`} onClick=${back(path, undo)}>Bring back</button></li>`;
  };
  const line = ({ path, text, at, author: by }) => html`<li key=${`${path} ${text}`}><p class="fact">${text}</p>
    <p class="quiet">Taken out of ${path} by ${author(by)}, ${when(at)}</p>
    <button aria-label=${`Bring back: ${text}`} onClick=${back("The line", () => memory.add(path, text))}>Bring back</button></li>`;
  const isEmpty = told && !told.files.length && !told.lines.length;
  return html`<${Dialog} title="Trash" problem=${refused || problem} onClose=${onClose}>
    <p>What was deleted, as far as the history goes back. "Forget me" empties it, too.</p>
    <p class="quiet status" role="status">${!refused && note}</p>
    ${isEmpty && html`<p class="quiet">Nothing is in the trash.</p>`}
    ${told?.lines.length > 0 && html`<h3>Lines</h3><ul class="trash" aria-label="Deleted lines">${told.lines.map(line)}</ul>`}
    ${told?.files.length > 0 && html`<h3>Files</h3><ul class="trash" aria-label="Deleted files">${told.files.map(file)}</ul>`}
  <//>`;
}
