// Judges a run anew for the traffic, load, prices and limits that the reader chooses.
// The first part computes what draftworth/analysis computes; a name in brackets is the function there.
"use strict";

const run = JSON.parse(document.getElementById("run").textContent);
const rules = run.rules;
const sum = (values) => values.reduce((total, value) => total + value, 0);
const percent = (share, digits) => `${(100 * share).toFixed(digits)}%`;

// ---- Intervals (clustering) ----

// The clusters of each stratum, with the sums of their samples (_clusters).
function clusters(samples, stratumOf, nameOf) {
  const total = (own) => ({ value: sum(own.map((s) => s.value)), weight: sum(own.map((s) => s.weight)) });
  const groups = (own, keyOf) => [...Map.groupBy(own, keyOf).values()];
  return groups(samples, stratumOf).map((own) => groups(own, nameOf).map(total));
}

// At least two clusters in each stratum (_merged).
function merged(strata) {
  const lone = strata.filter((own) => own.length === 1).flat();
  const several = strata.filter((own) => own.length > 1).sort((a, b) => a.length - b.length);
  if (lone.length === 1 && several.length) several[0] = [...several[0], ...lone];
  else if (lone.length > 1) several.push(lone);
  return several;
}

// The variance of the sum of all clusters (_variance).
function variance(strata) {
  return sum(strata.map((own) => {
    const mean = sum(own.map((c) => c.value)) / own.length;
    return own.length / (own.length - 1) * sum(own.map((c) => (c.value - mean) ** 2));
  }));
}

// Degrees of freedom by what each cluster weighs (_degrees_of_freedom, _expected).
function degreesOfFreedom(strata) {
  let total = 0, squares = 0;
  for (const own of strata) {
    const whole = sum(own.map((c) => c.weight));
    if (!whole) continue;
    const shares = own.map((c) => c.weight / whole);
    const [p2, p3, p4, p5] = [2, 3, 4, 5].map((exponent) => sum(shares.map((share) => share ** exponent)));
    const trace = p2 - 2 * p3 + p2 ** 2;
    const ofSquare = p4 + 2 * p3 ** 2 + 4 * p2 * p4 + p2 ** 4 - 4 * p5 - 4 * p2 ** 2 * p3;
    total += whole ** 2 * p2;
    squares += (whole ** 2 * p2) ** 2 * (trace ? ofSquare / trace ** 2 : 1);
  }
  return total ? Math.max(1, total ** 2 / squares) : 1;
}

// P(-t < T < t) for t = tan(angle) x sqrt(degrees), for whole degrees (_central).
function central(angle, degrees) {
  const odd = degrees % 2;
  let term = odd ? Math.cos(angle) : 1, total = degrees > 1 ? term : 0;
  for (let k = 2 + odd; k < degrees; k += 2) {
    term *= (k - 1) / k * Math.cos(angle) ** 2;
    total += term;
  }
  total *= Math.sin(angle);
  return odd ? 2 / Math.PI * (angle + total) : total;
}

// The quantile of Student's t for the run's confidence, for whole degrees (_student_t).
function wholeStudentT(degrees) {
  if (degrees >= rules.many_degrees) return rules.normal_quantile;
  let low = 0, high = Math.PI / 2;
  for (let step = 0; step < 60; step += 1) {
    const angle = (low + high) / 2;
    if (central(angle, degrees) < rules.confidence) low = angle;
    else high = angle;
  }
  return Math.tan(low) * Math.sqrt(degrees);
}

// The same, interpolated between whole degrees (student_t).
function studentT(degrees) {
  const below = Math.floor(degrees), [low, high] = [below, below + 1].map(wholeStudentT);
  return high + (low - high) * (below / degrees * (below + 1) - below);
}

const halfWidth = (part, degrees) => studentT(degrees) * Math.sqrt(part);

// How many repetitions have a sample of every case (whole_repetitions).
function wholeRepetitions(samples) {
  const cases = (own) => new Set(own.map((sample) => `${sample.stratum} ${sample.case}`)).size;
  const repetitions = Map.groupBy(samples, (sample) => sample.repetition), all = cases(samples);
  return [...repetitions.values()].filter((own) => cases(own) === all).length;
}

// Half of the interval of the sum of samples (spread, Spread.half_width); null: not known.
function spread(samples, repetitions) {
  const stratum = (sample) => sample.stratum;
  const prompts = clusters(samples, stratum, (sample) => sample.prompt);
  const ofPrompts = merged(prompts);
  const ofBlocks = merged(clusters(samples, stratum, (sample) => sample.block));
  const count = prompts.flat().length;
  if (!ofPrompts.length || !ofBlocks.length || count < rules.min_prompts) return null;
  const [byPrompt, byBlock] = [ofPrompts, ofBlocks].map(variance);
  const degrees = [ofPrompts, ofBlocks].map(degreesOfFreedom);
  const both = variance(merged(clusters(samples, stratum, (sample) => sample)));
  const most = Math.max(byPrompt, byBlock, byPrompt + byBlock - both);
  const within = halfWidth(most, Math.min(...degrees));
  if (repetitions < rules.many_repetitions) return within;
  const byRepetition = variance(merged(clusters(samples, () => 0, (sample) => sample.repetition)));
  const met = variance(merged(
    clusters(samples, stratum, (sample) => `${sample.prompt} ${sample.repetition}`)));
  return Math.max(within, Math.hypot(
    halfWidth(Math.max(0, byPrompt - met), degrees[0]), halfWidth(byRepetition, repetitions - 1)));
}

// ---- The cost ratio (ratios) ----

// Sums by class, and the weighted mean of the classes' seconds a token (_Sums).
function sumsOf(pairs, weights, column) {
  const over = weights.map(() => 0), under = weights.map(() => 0);
  for (const pair of pairs) {
    over[pair[0]] += pair[column];
    under[pair[0]] += pair[column + 1];
  }
  const total = sum(weights.map((weight, c) => weight ? weight * over[c] / under[c] : 0));
  const part = (c, seconds, tokens) => {
    const share = weights[c] * over[c] / under[c] / total, moved = over[c] ? seconds / over[c] : 0;
    return [share * (moved - tokens / under[c]), share * moved];
  };
  return { total, part, known: weights.every((weight, c) => !weight || under[c]) && total };
}

// Variant / baseline of the cost of a token, with its interval (log_cost_ratio, ratio_estimate).
function costRatio(measured, weights, factor) {
  const pairs = measured.pairs.filter((pair) => weights[pair[0]]);
  const [plain, drafted] = [6, 8].map((column) => sumsOf(pairs, weights, column));
  if (!plain.known || !drafted.known) return null;
  const samples = pairs.map(([c, stratum, prompt, block, repetition, name, ...amounts]) => {
    const [value, weight] = drafted.part(c, amounts[2], amounts[3]);
    const [other, others] = plain.part(c, amounts[0], amounts[1]);
    return { stratum, prompt, block, repetition, case: name, value: value - other, weight: weight + others };
  });
  const repetitions = wholeRepetitions(samples), half = spread(samples, repetitions);
  const value = drafted.total / plain.total * factor;
  const interval = half !== null && half < 1 ? [value * (1 - half), value / (1 - half)] : null;
  return { value, interval, repetitions: half === null ? 0 : repetitions };
}

// ---- The verdict (verdict, limits, control) ----

const inMix = (measured, weights) => measured.classes.filter((_, c) => weights[c]);

// Why the requests allow no verdict (why_not_comparable).
const whyNotComparable = (measured, weights) =>
  inMix(measured, weights).map((group) => group.why_not).find(Boolean) ?? "";

// Whether a variant keeps one limit in one class (_check).
function limitCheck(found, limitS, what) {
  const ms = (seconds, digits) => (seconds * 1e3).toFixed(digits);
  const limit = `limit ${Number((limitS * 1e3).toPrecision(6))} ms`;
  if (!found) return { kept: null, reason: `${what} was not measured (${limit})` };
  if (found.low === null) {
    return { kept: null, reason: `${what}: ${found.samples} requests do not show whether it keeps ` +
      `its ${limit}; some ${rules.requests_for_a_limit} or more would` };
  }
  const ends = `${ms(found.low, 1)} to ${ms(found.high, 1)} ms, ${limit}`;
  if (found.high <= limitS) return { kept: true, reason: "" };
  if (found.low > limitS) return { kept: false, reason: `${what} is ${ends}` };
  return { kept: null, reason: `${what} is ${ends}: measure more requests` };
}

// All limits that are not kept, or not shown to be (_checks).
function limitChecks(measured, weights, limits) {
  return inMix(measured, weights).flatMap((group) => run.latencies.map(({ name, limit }, place) =>
    limits[limit] === null ? { kept: true, reason: "" } :
      limitCheck(group.p95s[place], limits[limit], `${name} p95 of ${measured.name} in ${group.label}`)
  )).filter((check) => !check.kept);
}

// A ratio's distance from 1 in whole per cent, towards zero, without rounding (_sure).
function sure(end) {
  const one = 2n ** 60n, per = (BigInt(Math.floor(end * 2 ** 60)) - one) * 100n / one;
  return `${per < 0n ? -per : per}%`;
}

// Ends as changes, such as -41% to -35% (changes, signed_percent).
function changes(ends) {
  return ends.map((end) => {
    const text = percent(Math.abs(end - 1), 1);
    return /[1-9]/.test(text) ? (end < 1 ? "-" : "+") + text : text;
  }).join(" to ");
}

// The same in words, rounded outwards, such as 35 to 41% less (spoken_changes).
function spokenChanges(ends) {
  const percents = ends.map((end) => Number((Math.abs(end - 1) * 100).toFixed(9)));
  const [low, high] = ends.map((end) => end < 1 ? "less" : "more");
  return low === high ? `${Math.floor(Math.min(...percents))} to ${Math.ceil(Math.max(...percents))}% ${low}` :
    `${Math.ceil(percents[0])}% ${low} to ${Math.ceil(percents[1])}% ${high}`;
}

// The verdict on a cost ratio, and its reason (judge).
function judge(ratio, kept, reason) {
  if (kept === false) return ["outside the limits", reason];
  if (!ratio) return ["inconclusive", "no prompt of each class has its tokens counted on both sides"];
  if (!ratio.interval) {
    return ["inconclusive", `too few prompts or rounds: it takes ${rules.min_prompts} prompts in two rounds; ` +
      "more where they differ much"];
  }
  const [low, high] = ratio.interval, count = ratio.repetitions;
  const where = count >= rules.many_repetitions ? "" : count < 2 ? " in this run" : ` in these ${count} repetitions`;
  if (low > 1 + rules.indifference) return ["more expensive", `a token costs at least ${sure(low)} more${where}`];
  if (kept === null) return ["inconclusive", reason];
  if (high < 1 / (1 + rules.indifference)) return ["cheaper per token", `a token costs at least ${sure(high)} less${where}`];
  if (low >= 1 / (1 + rules.indifference) && high <= 1 + rules.indifference) {
    return ["no difference", `a token costs the same to ${percent(rules.indifference, 0)} either way${where}`];
  }
  const equal = low <= 1 && 1 <= high ? "" : `: up to ${percent(rules.indifference, 0)} counts as no difference`;
  return ["inconclusive", `${spokenChanges(ratio.interval)}${where} does not decide it${equal}`];
}

// Why the noise floor makes a verdict inconclusive (why_not_decided).
function byFloor(judgement, ratio, floor) {
  const own = ratio?.interval, noise = floor?.interval;
  if (!own || !noise || (noise[0] <= 1 && 1 <= noise[1])) return "";
  const clears = { "cheaper per token": own[1] < noise[0], "more expensive": noise[1] < own[0] };
  return clears[judgement] === false ? ", but on a second server without speculation it costs " +
    `${changes(noise)}: so much may be no effect of speculation` : "";
}

// A verdict and its reason, without the noise floor (_judged).
function judged(at, measured, ratio, checks, { weights, limits }) {
  const check = checks.find(({ kept }) => kept === false) ?? checks[0] ?? { kept: true, reason: "" };
  const why = whyNotComparable(measured, weights);
  if (why) return ["inconclusive", why];
  if (at.has_cost_per_token) return judge(ratio, check.kept, check.reason);
  if (run.latencies.every(({ limit }) => limits[limit] === null)) {
    return ["inconclusive", "arrivals at a rate have no cost per token; with workload.limits the answer is " +
      "the highest rate that keeps them"];
  }
  if (check.kept) return ["within the limits", "every latency limit is kept at this rate"];
  return [check.kept === null ? "inconclusive" : "outside the limits", check.reason];
}

// One variant beside the baseline (compare). usd: what the day's tokens cost with the baseline.
function compare(place, choice) {
  const { weights, prices, tokens } = choice, at = run.loads[choice.load], measured = at.variants[place];
  const [plain, own] = [prices[0], prices[place + 1]], wrong = run.not_the_targets[place];
  const ratio = at.has_cost_per_token ? costRatio(measured, weights, plain && own ? own / plain : 1) : null;
  const checks = limitChecks(measured, weights, choice.limits);
  let [judgement, reason] = wrong ? ["inconclusive", wrong] : judged(at, measured, ratio, checks, choice);
  const floor = whyNotComparable(at.control, weights) ? null : costRatio(at.control, weights, 1);
  const noise = byFloor(judgement, ratio, floor);
  if (noise) [judgement, reason] = ["inconclusive", reason + noise];
  const seconds = sum(weights.map((weight, c) => weight ? weight / at.tokens_per_s[c] : 0));
  const usd = plain && own && ratio ? tokens * seconds * plain / 3600 : null;
  return { judgement, reason, ratio, usd, unknown: checks.filter(({ kept }) => kept === null) };
}

// ---- The page ----

const byId = (id) => document.getElementById(id);
const names = [run.baseline, ...run.variants];
const numbers = [...document.querySelectorAll("input[type=number]")];
const valueOf = (id) => byId(id).value === "" ? null : Number(byId(id).value);

// Text from outside: what shows nothing, or changes the direction of text, becomes an escape.
const printable = (text) =>
  text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

// A slider has 1,000 positions, on a logarithmic scale if its least value is above 0. A position
// beyond them stands for an empty number: no limit, or no price.
function fromSlider({ value, dataset: { least, most } }) {
  const share = value / 1000;
  const number = least > 0 ? least * (most / least) ** share : most * share;
  return share > 1 ? "" : String(Number(number.toPrecision(3)));
}

function moveSlider(slider, text) {
  const { least, most } = slider.dataset;
  const share = least > 0 ? Math.log(text / least) / Math.log(most / least) : text / most;
  slider.value = text === "" ? slider.max : 1000 * Math.min(1, Math.max(0, share));
  slider.setAttribute("aria-valuetext", text || "none");
}

function chosen() {
  const weights = run.classes.map((_, c) => valueOf(`weight-${c}`)), whole = sum(weights);
  const limits = run.latencies.map(({ limit }) => [limit, valueOf(limit)]);
  return {
    load: byId("load").selectedIndex, tokens: valueOf("tokens"),
    weights: weights.map((weight) => weight / whole),
    prices: names.map((_, place) => valueOf(`price-${place}`)),
    limits: Object.fromEntries(limits.map(([name, ms]) => [name, ms === null ? null : ms / 1e3])),
  };
}

// What keeps the page from an answer; empty if nothing does.
function problem() {
  const wrong = numbers.find((input) => !input.checkValidity());
  if (wrong) return `${wrong.labels[0].textContent}: allowed: ${wrong.min} to ${wrong.max}.`;
  const isEmpty = run.classes.every((_, c) => !valueOf(`weight-${c}`));
  return isEmpty ? "Traffic mix: no class has a weight; give one of them more than 0." : "";
}

// A ratio in words, such as 41.2% less (apart).
const apart = (ratio) => `${percent(Math.abs(ratio - 1), 1)} ${ratio < 1 ? "less" : "more"}`;

// Fills a variant's card; the elements `<data>` have all digits in `value`.
function show(place, { judgement, reason, ratio, usd }) {
  const card = byId(`variant-${place}`), [low, high] = ratio?.interval ?? [null, null];
  const fill = (name, value, digits) => {
    const element = card.querySelector(`.${name}`);
    element.value = value ?? "";
    element.textContent = value === null ? "-" : value.toFixed(digits);
  };
  card.className = `card ${run.tones[judgement] ?? "open"}`;
  card.querySelector(".judgement").textContent = judgement;
  card.querySelector(".reason").textContent = printable(`${reason}.`);
  card.querySelector(".cost").textContent = ratio ? `costs ${apart(ratio.value)} per token` : "";
  card.querySelector(".day").hidden = usd === null;
  for (const [name, end] of Object.entries({ value: ratio?.value ?? null, low, high })) {
    fill(name, end, 3);
    fill(`usd-${name}`, usd === null || end === null ? null : usd * end, 2);
  }
  fill("usd", usd, 2);
}

// What the answer needs and was not measured.
function outside(choice, found) {
  const at = run.loads[choice.load];
  const said = at.variants.flatMap((measured, place) => {
    const { ratio, unknown } = found[place], count = ratio?.repetitions;
    const missing = inMix(measured, choice.weights).filter(({ pairs }) => !pairs);
    return [
      ...missing.map(({ label }) => `${label} was not measured with ${measured.name}`),
      ...unknown.map((check) => check.reason),
      ...ratio?.interval && count < rules.many_repetitions ? [`The interval of ${measured.name} does not say how ` +
        `much another start of the servers changes: whole repetitions that were measured: ${count}`] : [],
    ];
  });
  if (!at.has_cost_per_token) said.push("Requests that arrive at a rate have no cost per token");
  const unpriced = names.filter((_, place) => choice.prices[place] === null);
  if (unpriced.length) said.push(`Without a price, servers are taken to cost the same an hour: ${unpriced.join(", ")}`);
  return said;
}

function answer() {
  const why = problem();
  byId("problem").textContent = why;
  byId("answers").hidden = Boolean(why);
  if (why) return;
  const choice = chosen(), found = run.variants.map((_, place) => compare(place, choice));
  choice.weights.forEach((weight, c) => { byId(`share-${c}`).textContent = percent(weight, 1); });
  found.forEach((each, place) => show(place, each));
  byId("outside").replaceChildren(...outside(choice, found).map((sentence) => {
    const item = document.createElement("li");
    item.textContent = printable(`${sentence}.`);
    return item;
  }));
}

// The findings of the run's verdict that this script does not compute alike; there should be none.
function disagreements() {
  return run.verdict.findings.filter(({ variant, baseline, traffic, ...finding }) => {
    const place = run.variants.indexOf(variant);
    if (place < 0 || baseline !== run.baseline) return false;
    const load = run.loads.findIndex(({ label }) => label === finding.load);
    const ofClass = run.classes.map((name) => Number(name === traffic));
    const weights = ofClass.includes(1) ? ofClass : run.weights;
    const { judgement, ratio } = compare(place, { ...run, load, weights, tokens: 0 });
    const own = [ratio?.value ?? null, ...(ratio?.interval ?? [null, null])];
    return judgement !== finding.judgement || ["", "_low", "_high"].some((end, n) => {
      const told = finding[`cost_ratio${end}`];
      return (told === null) !== (own[n] === null) || Math.abs(told - own[n]) > 1e-6;
    });
  });
}

for (const input of numbers) {
  const slider = byId(`${input.id}-slider`), follow = () => { moveSlider(slider, input.value); answer(); };
  moveSlider(slider, input.value);
  input.addEventListener("input", follow);
  slider.addEventListener("input", () => { input.value = fromSlider(slider); follow(); });
}
byId("load").addEventListener("input", answer);
const wrong = disagreements().map(({ traffic, load, variant }) => `${traffic} at ${load}, ${variant}`);
if (wrong.length) {
  byId("disagreement").textContent = printable("This page does not compute what the run's verdict says, so do not " +
    `use it: ${wrong.join("; ")}`);
}
answer();
