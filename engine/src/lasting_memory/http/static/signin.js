// Signing in: by saying who one is where the server believes it, by a token elsewhere.

import { refusal } from "./client.js";
import { html } from "./lib/preact.js";
import { useAct } from "./parts.js";
import { Problem } from "./text.js";

const isDev = document.querySelector('meta[name="sign-in"]').content === "dev";
const ASCII_WITHOUT_COLON = /^[ -9;-~]+$/;
const NOT_ASCII = "A development token can only carry an organization in ASCII without a colon; choose another.";

const KEPT = "development token";

/** The token of a development server's person, which a reload finds again; "" for none. Any other token is in memory alone. */
export const keptToken = () => (isDev && sessionStorage.getItem(KEPT)) || "";
export const keepToken = (token) => isDev && (token ? sessionStorage.setItem(KEPT, token) : sessionStorage.removeItem(KEPT));

/** The token in the address, which is erased at once. */
export function tokenInAddress() {
  const token = location.hash.startsWith("#token=") ? location.hash.slice("#token=".length) : "";
  if (token) history.replaceState(null, "", location.pathname);
  return token;
}

/** `ended` says why the last session is over. */
export function SignIn({ ended, onToken }) {
  const [problem, act] = useAct();
  const submit = act(async ({ target }) => {
    const { identity, organization, token } = Object.fromEntries(new FormData(target));
    if (isDev && !ASCII_WITHOUT_COLON.test(organization)) throw refusal(422, NOT_ASCII);
    await onToken(isDev ? `dev:${organization.trim()}:${encodeURIComponent(identity.trim())}` : token.trim());
  });
  const dev = html`
    <label>Identity<input name="identity" required autocomplete="username" placeholder="alice@example.com" /></label>
    <label>Organization<input name="organization" required placeholder="acme" /></label>
    <p class="quiet">This is a development server: it believes who you say you are.</p>`;
  const byToken = html`<label>Token<input name="token" type="password" required autocomplete="off" /></label>
    <p class="quiet">The token of your identity provider. It is kept until you close or reload this page.</p>`;
  return html`<main class="sign-in">
    <h1>An agent that remembers</h1>
    <p>Talk to it, and watch what it remembers of you. You can correct all of it, undo it, and take it back.</p>
    <form onSubmit=${submit}>${isDev ? dev : byToken}<${Problem} text=${problem || ended} />
      <button class="main">Sign in</button></form>
  </main>`;
}

/** The question whether to sign in with the token in the address. It may be somebody's who wants to read along. */
export const Offer = ({ me, onAccept, onDecline }) => html`<main class="sign-in">
  <h1>An agent that remembers</h1>
  <p>Sign in as <b>${me.user_id}</b> of <b>${me.org_id}</b>?</p>
  <p class="quiet">The address that you opened says so. If that is not you, its author would see what you say.</p>
  <p class="row"><button class="main" onClick=${onAccept}>Yes, sign in</button>
    <button onClick=${onDecline}>That is not me</button></p>
</main>`;
