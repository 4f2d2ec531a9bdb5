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
export function answer(question, truth, { words = systemWords, row, most = Infinity } = {}) {
  const checked = checkQuestion(question);
  if (!(epsilon(checked) <= most)) throw new Error("SF-N512 This question would reveal more than is allowed.");
  return { question: checked.id, ...LAWS[checked.kind](checked, truth, words, row) };
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

  // Each report has b numbers, and each that speaks for the truth a − b more. The latter come first.
  subset(question, truth, words) {
    const [a, b] = odds(question);
    const code = parseCode(truth, question.values);
    const members = findMembers(question);
    const speaking = (a - b) * BigInt(members.length);
    const reports = BigInt(question.groups) * BigInt(question.cycle);
    const number = drawBelow(speaking + b * reports, words);
    if (number >= speaking) return { report: Number((number - speaking) / b) };
    const place = (members[Number(number / (a - b))] + Math.floor(code / question.groups)) % question.cycle;
    return { report: (code % question.groups) * question.cycle + place };
  },

  // One bit of a public row; a row that the survey has not assigned is drawn here and told.
  hadamard(question, truth, words, assigned) {
    const [a, b] = odds(question);
    const code = parseCode(truth, question.values);
    const rows = 2 ** (32 - Math.clz32(question.values)) - 1;
    const row = assigned === undefined ? Number(drawBelow(BigInt(rows), words)) + 1 : assigned;
    if (!Number.isInteger(row) || row < 1 || row > rows) throw new Error("SF-N514 There is no such row.");
    const parity = countBits(row & (code + 1)) & 1;
    return { row, report: drawBelow(a + b, words) < a ? parity : 1 - parity };
  },

  // One prefix of the value, of a length that is drawn here and told, hashed if it is long.
  prefix(question, truth, words) {
    const { bits, lengths, hashes, part } = question;
    const code = BigInt(parseCode(truth, 2 ** bits));
    const level = Number(drawBelow(BigInt(lengths.length), words));
    const prefix = code >> BigInt(bits - lengths[level]);
    const [high, low, offset] = hashes[level].map(BigInt);
    const mixed = (high * (prefix >> 26n) + low * (prefix & 0x3ffffffn) + offset) % 0x7fffffffn;
    const place = 2 ** lengths[level] > part.values ? mixed % BigInt(part.values) : prefix;
    return { level, ...LAWS.subset(part, Number(place), words) };
  },

  // A window that moves with the truth: its start is one of the two positions around it, right on average.
  mean(question, truth, words) {
    const [a, b] = odds(question);
    const { low, high, steps, positions, window } = question;
    if (typeof truth !== "number" || Number.isNaN(truth)) throw new Error("SF-N516 The answer is not a number.");
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
  subset: ["values", "groups", "cycle", "set", "prime", "power", "rule", "root", "order", "classes"],
  hadamard: ["values"],
  prefix: ["bits", "lengths", "hashes", "part"],
  mean: ["low", "high", "steps", "positions", "window"],
};

const FITS = {
  response: ({ values }) => isCount(values, 2),
  subset: fitsSubset,
  hadamard: ({ values }) => isCount(values, 1) && values < 2 ** 31 - 1,
  prefix({ bits, lengths, hashes, part }) {
    const known = Array.isArray(lengths) && Array.isArray(hashes) && lengths.length === hashes.length;
    return (
      known && isCount(bits, 1) && bits <= 52 && lengths.every((each) => isCount(each, 1) && each <= bits) &&
      lengths.length > 0 && hashes.every((each) => Array.isArray(each) && each.length === 3 && each.every(isHash)) &&
      part.kind === "subset" && fitsSubset(part)
    );
  },
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
  if (kept.kind === "prefix") kept.part = checkQuestion(kept.part);
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

function fitsSubset({ set, values, groups, cycle, prime, power, rule, root, order, classes }) {
  const sized = isCount(values, 1) && isCount(groups, 1) && isCount(cycle, 1);
  if (!sized || groups * cycle > Number.MAX_SAFE_INTEGER || groups * cycle < values) return false;
  if (set === "point") return true;
  if (!isCount(prime, 2) || prime >= 2 ** 26) return false;
  if (set === "cyclotomic") {
    // A member beyond the cycle would fall on another one, and its report would be likelier than the odds say.
    return prime === cycle && isCount(root, 1) && isCount(order, 1) && Array.isArray(classes);
  }
  const steps = Array.isArray(rule) && rule.length > 0 && rule.length <= 64 && rule.every((each) => isCount(each, 0));
  return set === "singer" && steps && isCount(power, 1) && power * cycle < 2 ** 28;
}

function isCount(number, least) {
  return Number.isSafeInteger(number) && number >= least;
}

function isHash(number) {
  return (typeof number === "number" && isCount(number, 0)) || /^[0-9]+$/.test(number);
}

function parseCode(truth, values) {
  const code = typeof truth === "boolean" ? Number(truth) : truth;
  if (!Number.isInteger(code) || code < 0 || code >= values) {
    throw new Error(`SF-N502 An answer is a whole number from 0 to ${values - 1}.`);
  }
  return code;
}

function countBits(number) {
  let count = 0;
  for (let left = number; left; left &= left - 1) count += 1;
  return count;
}

function roundEven(number) {
  const floor = Math.floor(number);
  const half = number - floor;
  return half < 0.5 || (half === 0.5 && floor % 2 === 0) ? floor : floor + 1;
}

// ---- the places that speak for value 0, as local/designs.py finds them ----

const KNOWN = new Map();

function findMembers({ set, prime, power, rule, cycle, root, order, classes }) {
  const key = JSON.stringify([set, prime, power, rule, cycle, root, order, classes]);
  if (!KNOWN.has(key)) KNOWN.set(key, SETS[set]({ prime, power, rule, cycle, root, order, classes }));
  return KNOWN.get(key);
}

const SETS = {
  point: () => [0],

  // Where `power` terms of a linear recurrence, a cycle apart, are all 0.
  singer({ prime, power, rule, cycle }) {
    const terms = new Int32Array(power * cycle + rule.length);
    terms[rule.length - 1] = 1;
    const used = rule.map((_, j) => j).filter((j) => rule[j]);
    for (let i = rule.length; i < power * cycle; i++) {
      let sum = 0;
      for (const j of used) sum += rule[j] * terms[i - rule.length + j];
      terms[i] = sum % prime;
    }
    const found = [];
    for (let i = 0; i < cycle; i++) {
      let zero = true;
      for (let j = 0; zero && j < power; j++) zero = terms[i + j * cycle] === 0;
      if (zero) found.push(i);
    }
    return found;
  },

  // Powers of a primitive root whose exponents lie in the chosen classes.
  cyclotomic({ prime, root, order, classes }) {
    const chosen = new Set(classes);
    const member = new Uint8Array(prime);
    for (let exponent = 0, number = 1; exponent < prime - 1; exponent++, number = (number * root) % prime) {
      if (chosen.has(exponent % order)) member[number] = 1;
    }
    const found = [];
    for (let i = 0; i < prime; i++) if (member[i]) found.push(i);
    return found;
  },
};
