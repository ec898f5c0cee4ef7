// An export on its way back: in parts that the server takes, of its conversations the text alone.

import { refusal } from "./client.js";
import { plain } from "./text.js";
import { t } from "./texts.js";

// Of one request. The server takes 1,000 conversations and 16 MB.
const MOST_CONVERSATIONS = 200;
const MOST_CHARACTERS = 4_000_000;
const SPEAKERS = ["human", "ai"];

/** The conversation without what is not imported. */
function slim({ thread_id, created_at, updated_at, metadata, values }) {
  const said = Array.isArray(values?.messages) ? values.messages.filter((message) => SPEAKERS.includes(message?.type)) : [];
  const messages = said.map(({ type, content, additional_kwargs: about }) =>
    ({ type, content: plain(content), additional_kwargs: { said_at: about?.said_at } }));
  return { thread_id, created_at, updated_at, metadata, values: { messages } };
}

/** The parts of an export, each an export itself. Raises for what is none, another assistant's export for example. */
export function* partsOf(document) {
  if (!Array.isArray(document?.files)) throw refusal(422, t("data.no_export"));
  const { version, proposals, proposed_changes, controls } = document;
  const files = document.files.map(({ path, content, encoding }) => ({ path, content, encoding }));
  yield { version, files, proposals, proposed_changes, controls };
  let conversations = [];
  let characters = 0;
  for (const conversation of Array.isArray(document.conversations) ? document.conversations : []) {
    const slimmed = slim(conversation ?? {});
    const length = JSON.stringify(slimmed).length;
    if (conversations.length === MOST_CONVERSATIONS || (conversations.length && characters + length > MOST_CHARACTERS)) {
      yield { version, files: [], conversations };
      conversations = [];
      characters = 0;
    }
    conversations.push(slimmed);
    characters += length;
  }
  if (conversations.length) yield { version, files: [], conversations };
}

/** Send the parts one after the other. What was done: files, and counts of conversations and proposals. */
export async function importAll(memory, document) {
  const done = { files: [], created: 0, there: 0, left_out: 0, proposals: 0 };
  for (const body of partsOf(document)) {
    const { files, proposals, conversations } = await memory.change("POST", "/memory/import", { body });
    done.files.push(...files);
    done.proposals += proposals;
    for (const name of ["created", "there", "left_out"]) done[name] += conversations[name];
  }
  return done;
}
