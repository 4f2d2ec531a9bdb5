// Answers survey questions on the respondent's side: the truth goes in, and only a randomized report comes out.
//
//   import { answer } from "./client.js";
//   const message = answer(question, truth);        // {question: id, report: …}, to be sent to the survey
//   const message = answerOnce(question, truth, memo); // the same message again, whenever it is asked again
//
// `question` is what mechanism.question() of sfumato.local returns. The laws are those of the Python code, to the
// last digit: odds are whole numbers, every draw is an integer below a bound, and no probability is a double.
// Coins come from crypto.getRandomValues. Why it is private: docs/proofs/local.md.

/** Independent uniform 64-bit words from the operating system. Tests give others. */
export function systemWords(count) {
  return crypto.getRandomValues(new BigUint64Array(count));
}

/** A uniform integer from 0 to bound − 1. Words beyond the last complete multiple of it are drawn again. */
export function drawBelow(bound, words = systemWords) {
  const all = 1n << 64n;
  const complete = all - (all % bound);
  for (;;) {
    const word = words(1)[0];
    if (word < complete) return word % bound;
  }
}

/**
 * The message that answers a question: its id and a randomized report. A question whose numbers do not fit together
 * is refused, and so is one that would reveal more than `most`, an epsilon that the respondent can live with.
 */
export function answer(question, truth, { words = systemWords, most = Infinity } = {}) {
  const checked = checkQuestion(question);
  if (!(epsilon(checked) <= most)) throw new Error("SF-N512 This question would reveal more than is allowed.");
  return { question: checked.id, ...LAWS[checked.kind](checked, truth, words) };
}

/** How much a report may reveal: the logarithm of the odds. */
export function epsilon(question) {
  const [a, b] = odds(checkQuestion(question));
  return Math.log(Number(a) / Number(b));
}

/**
 * The message that the memo holds for this question, or a new one that it holds from now on.
 * A memo has get(key) and set(key, message), as a Map has; keep it where only the respondent can read it. The key is
 * what the question says and not its id: under a new id the same question gets the same report.
 */
export function answerOnce(question, truth, memo, options = {}) {
  const checked = checkQuestion(question);
  const { id, ...said } = checked;
  const key = JSON.stringify(said);
  const told = memo.get(key);
  if (told !== undefined) return { ...told, question: id };
  const message = answer(checked, truth, options);
  memo.set(key, message);
  return message;
}

const LAWS = {
  // The first a numbers stand for the truth, each further b for one of the other answers.
  response(question, truth, words) {
    const [a, b] = odds(question);
    const code = parseCode(truth, question.values);
    const number = drawBelow(a + BigInt(question.values - 1) * b, words);
    if (number < a) return { report: code };
    const other = Number((number - a) / b);
    return { report: other + (other >= code ? 1 : 0) };
  },

  // A set of `size` values. Each set with the truth has a numbers where each set without it has b. All other values
  // are put in a random order up to place `size` in either case; the truth takes the first place.
  subset(question, truth, words) {
    const [a, b] = odds(question);
    const { values, size } = question;
    const code = parseCode(truth, values);
    const withTruth = a * BigInt(size);
    const number = drawBelow(withTruth + b * BigInt(values - size), words);
    const others = Array.from({ length: values - 1 }, (_, each) => each + (each >= code ? 1 : 0));
    for (let place = 0; place < size; place++) {
      const other = place + Number(drawBelow(BigInt(values - 1 - place), words));
      [others[place], others[other]] = [others[other], others[place]];
    }
    const chosen = others.slice(0, size);
    if (number < withTruth) chosen[0] = code;
    return { report: chosen.sort((first, second) => first - second) };
  },

  // A window that moves with the truth: its start is one of the two positions around it, right on average.
  mean(question, truth, words) {
    const [a, b] = odds(question);
    const { low, high, steps, positions, window } = question;
    if (typeof truth !== "number" || Number.isNaN(truth)) throw new Error("SF-N502 The answer is not a number.");
    const exact = roundEven(((Math.min(Math.max(truth, low), high) - low) / (high - low)) * steps);
    const moved = exact * (positions - window);
    const coin = Number(drawBelow(BigInt(steps), words));
    const start = Math.floor(moved / steps) + (coin < moved % steps ? 1 : 0);
    const inside = (a - b) * BigInt(window);
    const number = drawBelow(inside + b * BigInt(positions), words);
    if (number < inside) return { report: start + Number(number / (a - b)) };
    return { report: Number((number - inside) / b) };
  },
};

function odds(question) {
  return question.odds.map(BigInt);
}

// ---- a survey is not trusted: its numbers are checked before the truth is touched ----

const FIELDS = {
  response: ["values"],
  subset: ["values", "size"],
  mean: ["low", "high", "steps", "positions", "window"],
};

const FITS = {
  response: ({ values }) => isCount(values, 2),
  subset: ({ values, size }) => isCount(values, 2) && values <= 4096 && isCount(size, 1) && size < values,
  mean: ({ low, high, steps, positions, window }) =>
    Number.isFinite(low) && Number.isFinite(high) && low < high && isCount(steps, 1) && isCount(window, 1) &&
    isCount(positions, window) && steps * positions <= Number.MAX_SAFE_INTEGER,
};

/** The parts of a question that are known, in one order; the rest is left out. */
function checkQuestion(question) {
  if (typeof question !== "object" || question === null || !Object.hasOwn(LAWS, question.kind)) {
    throw new Error("SF-N512 This client does not know such a question: " + String(question?.kind));
  }
  const kept = { id: question.id, kind: question.kind, odds: question.odds };
  for (const name of FIELDS[question.kind]) if (question[name] !== undefined) kept[name] = question[name];
  let fits = false;
  try {
    const [a, b] = odds(kept);
    fits = kept.odds.length === 2 && b > 0n && a > b && FITS[kept.kind](kept);
  } catch {
    fits = false;
  }
  if (!fits) throw new Error("SF-N512 The numbers of this question do not fit together.");
  return kept;
}

function isCount(number, least) {
  return Number.isSafeInteger(number) && number >= least;
}

function parseCode(truth, values) {
  const code = typeof truth === "boolean" ? Number(truth) : truth;
  if (!Number.isInteger(code) || code < 0 || code >= values) {
    throw new Error(`SF-N502 An answer is a whole number from 0 to ${values - 1}.`);
  }
  return code;
}

function roundEven(number) {
  const floor = Math.floor(number);
  const half = number - floor;
  return half < 0.5 || (half === 0.5 && floor % 2 === 0) ? floor : floor + 1;
}
