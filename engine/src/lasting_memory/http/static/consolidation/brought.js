// What a person brings along from another assistant: a pasted text or a file, and what became of it.

import { refusal } from "../client.js";
import { html } from "../lib/preact.js";
import { t } from "../texts.js";

// What the server takes of one text, as JSON.
const MOST_BYTES = 20_971_520;
const MEGABYTE = 1_048_576;

/** The text of a form: of its file, else of its field. Throws a `refusal` that says what to choose instead. */
export async function textOf(form) {
  const given = new FormData(form);
  const file = given.get("file");
  const name = file?.size ? file.name : t("bring.the_text");
  const checkSize = (size) => {
    const values = { name, size: Math.ceil(size / MEGABYTE), most: MOST_BYTES / MEGABYTE };
    if (size > MOST_BYTES) throw refusal(413, t("bring.too_large", values));
  };
  checkSize(file?.size ?? 0);
  const text = file?.size ? decoded(new Uint8Array(await file.arrayBuffer()), name) : given.get("text");
  if (!text.trim()) throw refusal(422, t("bring.neither"));
  checkSize(new Blob([JSON.stringify({ text })]).size);
  return text;
}

const ENCODINGS = [["utf-16le", 0xff, 0xfe], ["utf-16be", 0xfe, 0xff]];

function decoded(bytes, name) {
  if (bytes[0] === 0x50 && bytes[1] === 0x4b && bytes[2] === 3) throw refusal(415, t("bring.archive", { name }));
  const [encoding] = ENCODINGS.find(([, first, second]) => bytes[0] === first && bytes[1] === second) ?? ["utf-8"];
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes).replaceAll("\0", "");
  } catch {
    throw refusal(415, t("bring.no_text", { name }));
  }
}

/** Why so many of what was found are not proposed, by the server's word for it. */
const LEFT_OUT = {
  known: (count) => t("bring.left_known", { count }),
  taken_back: (count) => t("bring.left_taken_back", { count }),
  twice: (count) => t("bring.left_twice", { count }),
  too_long: (count) => t("bring.left_too_long", { count }),
  too_many: (count) => t("bring.left_too_many", { count }),
  credential: (count) => t("bring.left_credential", { count }),
  refused: (count) => t("bring.left_refused", { count }),
  not_taken: (count) => t("bring.left_not_taken", { count }),
  failed: (count) => t("bring.left_failed", { count }),
  not_read: (count) => t("bring.left_not_read", { count }),
};

/** How much was found, proposed and left out, and why; with the beginnings of what was. */
export function Summary({ told }) {
  const { found, proposed, left_out: leftOut, invented, framing, failed } = told;
  const left = Object.values(leftOut).reduce((sum, { count }) => sum + count, 0);
  const why = ([reason, { count, lines }]) => html`<li key=${reason}>${LEFT_OUT[reason]?.(count) ?? reason}
    <${Lines} lines=${lines} more=${count - lines.length} /></li>`;
  return html`<section aria-label=${t("bring.summary_label")}>
    <p role="status">${t("bring.summary", { found, proposed, left })}${!told.proposal && ` ${t("bring.nothing")}`}</p>
    <ul class="reasons">${Object.entries(leftOut).map(why)}
      ${invented.length > 0 && html`<li>${t("bring.invented")}<${Lines} lines=${invented} more=${0} /></li>`}
      ${framing.count > 0 && html`<li>${t("bring.framing", framing)}
          <${Lines} lines=${framing.lines} more=${framing.count - framing.lines.length} /></li>`}
      ${failed.map(({ part, reason }) => html`<li key=${part}>${t("bring.failed_part", { part, reason })}</li>`)}</ul>
  </section>`;
}

function Lines({ lines, more }) {
  return html`<span class="quiet" dir="auto"> ${lines.join(" · ")}${more > 0 && ` ${t("bring.and_more", { count: more })}`}</span>`;
}
