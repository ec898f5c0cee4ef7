// What is attached to a message, as one sees it: pictures, and the names of files.

import { pictureOf } from "./attachments.js";
import { html, useEffect, useMemo } from "./lib/preact.js";
import { t } from "./texts.js";

/** Attachments in a row; with `onRemove(item)` each can be taken away again. */
export function Attached({ of, onRemove }) {
  const remove = (item) => html`<button type="button" class="small" aria-label=${t("attachments.remove", { name: item.name })}
    onClick=${() => onRemove(item)}>${t("attachments.remove_short")}</button>`;
  const entry = (item, n) => html`<li key=${n}>
    ${item.block.type === "image" && html`<${Picture} ...${item} />`}
    <span dir="auto">${item.name}</span>${onRemove && remove(item)}</li>`;
  return html`<ul class="attached" aria-label=${t("attachments.label")}>${of.map(entry)}</ul>`;
}

/** A picture of a message. Its bytes are in the message: nothing is loaded from anywhere. */
function Picture({ name, block }) {
  const address = useMemo(() => {
    const picture = pictureOf(block);
    return picture && URL.createObjectURL(picture);
  }, [block.base64]);
  useEffect(() => () => address && URL.revokeObjectURL(address), [address]);
  if (!address) return html`<span class="quiet">${t("attachments.not_shown")}</span>`;
  return html`<img src=${address} alt=${name || t("attachments.picture")} />`;
}
