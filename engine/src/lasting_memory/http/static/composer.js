// The box to write in, with what is attached to the next message.

import { accepted, attach } from "./attachments.js";
import { html, useRef } from "./lib/preact.js";
import { Attached } from "./attached.js";
import { useAct } from "./parts.js";
import { Problem } from "./text.js";
import { t } from "./texts.js";

// While an input method's words are chosen, Enter is its own; of the last one Safari says so by this code alone.
const OF_AN_INPUT_METHOD = 229;

/** Whether a key sends the message. Where there is no keyboard but on the screen, Enter begins a line, and the button sends. */
function isSending({ key, shiftKey, isComposing, keyCode }) {
  const isChoosing = isComposing || keyCode === OF_AN_INPUT_METHOD;
  return key === "Enter" && !shiftKey && !isChoosing && !matchMedia("(pointer: coarse)").matches;
}

/** `box` is the ref of the field, `pictures` whether the model looks at any, `onSend()` is called before a message is sent. */
export function Composer({ talk, box, pictures, onSend }) {
  const [problem, act, isBusy] = useAct();
  const chooser = useRef();
  const send = (event) => {
    event.preventDefault();
    if (isBusy) return; // what is attached comes with it
    onSend();
    talk.say();
    box.current.focus();
  };
  const stop = () => {
    talk.stop();
    box.current.focus(); // the button goes
  };
  const add = act(async ({ target, clipboardData, dataTransfer }) => {
    const files = [...((clipboardData ?? dataTransfer)?.files ?? target.files)];
    if (target === chooser.current) target.value = ""; // the same file may be chosen again
    talk.set({ attached: await attach(files, talk.attached, pictures) });
    box.current.focus();
  });
  const onPaste = (event) => event.clipboardData?.files.length && add(event);
  const onDrop = (event) => event.dataTransfer?.files.length && add(event);
  const onKeyDown = (event) => isSending(event) && send(event);
  const remove = (item) => {
    talk.set({ attached: talk.attached.filter((other) => other !== item) });
    box.current.focus();
  };
  const isEmpty = !talk.draft.trim() && !talk.attached.length;
  const stopButton = html`<button type="button" key="stop" aria-busy=${talk.isStopping} aria-disabled=${talk.isStopping} onClick=${stop}>${t("chat.stop")}</button>`;
  return html`<form class="composer" onSubmit=${send} onDrop=${onDrop} onDragOver=${(event) => event.preventDefault()}>
    ${talk.attached.length > 0 && html`<${Attached} of=${talk.attached} onRemove=${remove} />`}
    <${Problem} text=${problem} />
    <label class="button attach" title=${t("attachments.add")}><span aria-hidden="true">+</span>
      <input type="file" multiple aria-label=${t("attachments.add")} ref=${chooser} accept=${accepted(pictures)} onChange=${add} /></label>
    <label class="unseen" for="message">${t("chat.message")}</label>
    <textarea id="message" ref=${box} rows="1" dir="auto" value=${talk.draft} placeholder=${t("chat.say")} onPaste=${onPaste}
      onInput=${({ target }) => talk.set({ draft: target.value })} onKeyDown=${onKeyDown}></textarea>
    ${talk.isGoing ? stopButton : html`<button class="main" key="send" disabled=${isEmpty || isBusy}>${t("chat.send")}</button>`}
  </form>`;
}
