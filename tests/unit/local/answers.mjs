// Reads one request per line and answers it with the client named on the command line.
//   {question, truths, words: ["…"]}  messages drawn with these words in order
//   {question, truth, draws}          how often each report came up, with the system's coins
//   {question, truth, memo: n}        n messages of one memo, for the same question under n ids
import { createInterface } from "node:readline";
import { webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto;
const { answer, answerOnce } = await import(process.argv[2]);

function scripted(words) {
  let given = 0;
  return (count) => BigUint64Array.from({ length: count }, () => BigInt(words[given++ % words.length]));
}

function respond({ question, truths, truth, words, draws, memo, most }) {
  if (draws) {
    const counts = {};
    for (let i = 0; i < draws; i++) {
      const report = JSON.stringify(answer(question, truth).report);
      counts[report] = (counts[report] ?? 0) + 1;
    }
    return counts;
  }
  if (memo) {
    const kept = new Map();
    const ask = (id) => answerOnce({ ...question, id, unknown: id }, truth, kept);
    return Array.from({ length: memo }, (_, i) => ask(`id ${i}`));
  }
  const source = words && scripted(words);
  return truths.map((each) => answer(question, each, { words: source, most }));
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify(respond(JSON.parse(line))));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }));
  }
}
