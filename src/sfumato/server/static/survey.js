// Answers a survey: the truth is read from the page, randomized by client.js, and forgotten. Only the report is sent.
//
// The report is kept in this browser before it is sent. Whoever loads the page again, or loses the connection, sends
// the same report and tosses no new coins. It is sent at once: if people saw it first and could think twice, who
// answers would depend on the truth, and that would tell more than the odds allow.
import { answerOnce } from "/surveys/client.js";

const STEP = 900; // milliseconds that a coin is in the air; nothing but the eye depends on it

const part = (id) => document.getElementById(id);
const still = window.matchMedia("(prefers-reduced-motion: reduce)");
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, still.matches ? 0 : milliseconds));

// ---- what this browser keeps ------------------------------------------------------------------------------------

// The key is what is asked and not where: the same question behind another link gets the same report.
export class Memo {
  constructor(asked, storage = findStorage()) {
    this.storage = storage;
    this.prefix = `sfumato report ${JSON.stringify([asked.question, asked.choices, asked.round])} `;
  }

  get(key) {
    const kept = this.storage.getItem(this.prefix + key);
    return kept === null ? undefined : JSON.parse(kept);
  }

  set(key, message) {
    this.storage.setItem(this.prefix + key, JSON.stringify(message));
  }

  clear() {
    const keys = Array.from({ length: this.storage.length }, (_, place) => this.storage.key(place));
    for (const key of keys) if (key.startsWith(this.prefix)) this.storage.removeItem(key);
  }
}

function findStorage() {
  try {
    window.localStorage.setItem("sfumato", "");
    window.localStorage.removeItem("sfumato");
    return window.localStorage;
  } catch {
    return new PageStorage(); // kept while the page is open
  }
}

class PageStorage {
  kept = new Map();
  get length() { return this.kept.size; }
  key(place) { return [...this.kept.keys()][place] ?? null; }
  getItem(key) { return this.kept.get(key) ?? null; }
  setItem(key, text) { this.kept.set(key, text); }
  removeItem(key) { this.kept.delete(key); }
}

/** The report for a truth, kept from now on, and the number that was drawn for it; none if it was kept before. */
export function randomize(asked, truth, memo) {
  let drawn = null;
  const words = (count) => {
    const found = crypto.getRandomValues(new BigUint64Array(count));
    drawn = found[0];
    return found;
  };
  const message = answerOnce(asked.law, truth, memo, { words });
  return { message: { ...message, round: asked.round }, number: drawn === null ? null : drawn % countNumbers(asked.law) };
}

/** How many numbers can be drawn: a for the truth and b for each other answer, where the odds are a to b. */
function countNumbers(law) {
  const [a, b] = law.odds.map(BigInt);
  return a + BigInt(law.values - 1) * b;
}

// Two tabs toss one after the other, so that the second finds what the first has kept.
function alone(work) {
  return navigator.locks ? navigator.locks.request("sfumato survey", work) : work();
}

// ---- the page ---------------------------------------------------------------------------------------------------

function start() {
  const place = part("ask");
  if (place === null) return;
  const asked = JSON.parse(place.dataset.asked);
  const page = { asked, address: place.dataset.send, memo: new Memo(asked), done: `sfumato sent ${place.dataset.send} ${asked.round}` };
  place.hidden = false;
  const byHand = part("by-hand");
  if (byHand) byHand.open = false;
  part("toss").addEventListener("click", () => toss(page));
  part("choices").addEventListener("change", () => { part("missing").hidden = true; });
  part("resend").addEventListener("click", () => send(page, findKept(page)));
  part("retry").addEventListener("click", () => send(page, findKept(page)));
  part("other-person").addEventListener("click", () => {
    page.memo.clear();
    page.memo.storage.removeItem(page.done);
    show("fresh");
    part("choices").querySelector("input").focus();
  });
  const kept = findKept(page);
  if (kept !== undefined) showKept(page, kept);
}

/** The message that was kept for this question, law and round. */
function findKept({ asked, memo }) {
  const { id, ...law } = asked.law;
  const said = JSON.stringify({ kind: law.kind, odds: law.odds, values: law.values });
  const kept = memo.get(said);
  return kept === undefined ? undefined : { ...kept, question: id, round: asked.round };
}

function show(...ids) {
  for (const id of ["fresh", "again", "happening", "sent", "failed"]) part(id).hidden = !ids.includes(id);
}

function showKept(page, kept) {
  const said = page.asked.choices[kept.report];
  const counted = !page.asked.by_invitation && page.memo.storage.getItem(page.done) !== null;
  part("again-words").textContent = counted
    ? `This browser has sent an answer to this survey: “${said}”. There is nothing more to do.`
    : `Coins for this question were tossed in this browser before and said “${said}”. The same is sent again, so that nothing more can be learnt about you.`;
  part("resend").hidden = counted;
  show("again");
}

async function toss(page) {
  const chosen = part("choices").querySelector("input:checked");
  if (chosen === null) {
    part("missing").hidden = false;
    part("choices").querySelector("input").focus();
    return;
  }
  const truth = Number(chosen.value);
  chosen.checked = false;
  const { message, number } = await alone(() => randomize(page.asked, truth, page.memo));
  const sending = post(page, message);
  if (number !== null) {
    show("happening");
    await (part("coin-1") ? showCoins(page.asked, number, message.report) : showStrip(page.asked, number, truth, message.report));
    finish(page, message, await sending, "happening");
  } else {
    finish(page, message, await sending);
  }
}

async function send(page, message) {
  finish(page, message, await post(page, message));
}

/** Send a report and nothing else: no cookie, no address of this page. Returns whether it was counted, or why not. */
async function post({ address }, message) {
  try {
    const answer = await fetch(address, {
      method: "POST",
      credentials: "omit",
      cache: "no-store",
      referrerPolicy: "no-referrer",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ question: message.question, round: message.round, report: message.report }),
    });
    const said = await answer.json();
    return answer.ok ? { counted: said.counted } : { problem: said.title };
  } catch {
    return { problem: "The answer did not reach the server." };
  }
}

function finish(page, message, outcome, ...beside) {
  if (outcome.problem) {
    part("failed-words").textContent = `${outcome.problem} It is kept in this browser; sending it again tosses no new coins.`;
    show(...beside, "failed");
    return;
  }
  if (!page.asked.by_invitation) page.memo.storage.setItem(page.done, "");
  part("sent-words").textContent = outcome.counted
    ? "Thank you. Your randomized answer was counted."
    : "An answer was counted with this invitation before, so this one was not.";
  const { question, round, report } = message;
  part("sent-message").textContent = JSON.stringify({ question, round, report });
  part("sent-meaning").textContent = `Report ${report} stands for “${page.asked.choices[report]}”, which may or may not be true. What fell above tells more than was sent: close this page where others see the screen.`;
  show(...beside, "sent");
  if (part("by-hand")) part("by-hand").hidden = true;
  part("sent").focus();
}

// ---- what is drawn, shown -----------------------------------------------------------------------------------------

// The fair coin draws one of four numbers. The first two are heads, and the report is the truth; the last two are tails,
// and the second coin says what is reported: the truth for one of them, the other answer for the other.
async function showCoins(asked, number, report) {
  const heads = number < 2n;
  await flip(part("coin-1"), heads);
  if (heads) {
    part("outcome").textContent = `Heads: your true answer is sent, “${asked.choices[report]}”.`;
    return;
  }
  part("outcome").textContent = "Tails: the coin is tossed again.";
  part("coin-2").hidden = false;
  await flip(part("coin-2"), report === 0);
  part("outcome").textContent = `Tails, then ${report === 0 ? "heads" : "tails"}: “${asked.choices[report]}” is sent, whatever is true.`;
}

async function flip(coin, heads) {
  coin.classList.toggle("shows-tails", !heads);
  coin.classList.add("spinning");
  await wait(STEP);
  coin.classList.remove("spinning");
}

// Other odds: a strip as long as all numbers, those of the truth first, and a mark at the number that was drawn.
async function showStrip(asked, number, truth, report) {
  const [a, b] = asked.law.odds.map(Number);
  const total = a + (asked.law.values - 1) * b;
  const strip = part("strip");
  const order = [truth, ...asked.choices.keys()].filter((choice, place) => place === 0 || choice !== truth);
  let from = 0;
  for (const choice of order) {
    const wide = (100 * (choice === truth ? a : b)) / total;
    strip.append(drawRect(choice === truth ? "truth" : "other", from, wide));
    from += wide;
  }
  const mark = drawRect("mark", 0, 1);
  strip.append(mark);
  const key = part("strip-key");
  for (const text of ["wide part: your true answer", "narrow parts: each other answer"]) {
    const line = document.createElement("li");
    line.textContent = text;
    key.append(line);
  }
  const lands = (100 * (Number(number) + 0.5)) / total;
  await sweep(mark, lands);
  part("outcome").textContent = report === truth
    ? `The draw fell on your true answer: “${asked.choices[report]}” is sent.`
    : `The draw fell on another answer: “${asked.choices[report]}” is sent.`;
}

function drawRect(kind, from, wide) {
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  rect.setAttribute("class", kind);
  for (const [name, value] of [["x", from], ["y", 0], ["width", wide], ["height", 12]]) rect.setAttribute(name, String(value));
  return rect;
}

async function sweep(mark, lands) {
  const began = performance.now();
  for (let passed = 0; passed < STEP && !still.matches; passed = performance.now() - began) {
    const share = passed / STEP;
    mark.setAttribute("x", String(((lands + 300 * (1 - share) ** 2) % 100) - 0.5));
    await new Promise(requestAnimationFrame);
  }
  mark.setAttribute("x", String(lands - 0.5));
}

start();
