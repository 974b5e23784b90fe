"use strict";
// The order of methods by what matters to somebody: the same formula as `snellen recommend` (recommend.py).

const WEIGHTS = { essential: 3, nice: 1, unimportant: 0, unwanted: 1 };
const STATES = ["met", "not known", "missed"];
const ENOUGH = 0.5, DRAWS = 2000;
const level = (wishes, name) => wishes.levels[name] || "unimportant";
const rounded = (value) => Math.round(value * 1e9);

/** The methods in order; wishes: { levels: {attribute: level}, cost: seconds or null, blackBox: boolean }. */
function rank(methods, wishes) {
  const weighed = Object.keys(methods[0].grades).filter((name) => WEIGHTS[level(wishes, name)]);
  const entries = methods.map((method) => {
    const needs = needsOf(method, wishes);
    const state = STATES[Math.max(0, ...needs.map((one) => STATES.indexOf(one.state)))];
    return { method, needs, state, score: score(method, wishes, {}) };
  });
  entries.sort((one, other) => STATES.indexOf(one.state) - STATES.indexOf(other.state) || tied(other) - tied(one)
    || (one.method.label < other.method.label ? -1 : 1));
  entries.forEach((one, at) => {
    const next = entries[at + 1];
    one.place = at + 1;
    one.sacrifice = sacrifice(one.method, methods, weighed, wishes);
    one.decided = next && next.state === one.state ? decided(one.method, next.method, weighed, wishes) : [];
    one.open = weighed.filter((name) => level(wishes, name) !== "essential" && one.method.grades[name] === null);
  });
  return entries;
}

/** A score by which to sort: no score ties with no score. */
const tied = (one) => (Number.isNaN(one.score) ? 0 : rounded(one.score));

/** The first, and those behind it by their names alone. */
const alike = (entries) => entries.filter((one) => tied(one) === tied(entries[0]));

/** What was asked of a method, essential properties and conditions, and whether each is met. */
function needsOf(method, wishes) {
  const found = Object.keys(method.grades).filter((name) => level(wishes, name) === "essential").map((name) => {
    const grade = method.grades[name];
    const state = grade === null ? "not known" : grade >= ENOUGH ? "met" : "missed";
    return { name, state, short: state === "met" ? 0 : state === "missed" ? ENOUGH - grade : 0.5 };
  });
  if (wishes.cost !== null) {
    const state = method.seconds === null ? "not known" : method.seconds <= wishes.cost ? "met" : "missed";
    found.push({ name: "cost", state, short: state === "met" ? 0 : 0.5 });
  }
  if (wishes.blackBox) {
    const state = method.inside.length ? "missed" : "met";
    found.push({ name: "black-box", state, short: state === "met" ? 0 : 0.5 });
  }
  return found;
}

/** What a grade is worth: turned round where it is unwanted, one half where it is not known. */
function worth(method, name, wishes) {
  const grade = method.grades[name] === null ? 0.5 : method.grades[name];
  return level(wishes, name) === "unwanted" ? 1 - grade : grade;
}

/** The mean of the grades by weight; nothing where nothing counts. */
function score(method, wishes, factors) {
  let sum = 0, total = 0;
  for (const name of Object.keys(method.grades)) {
    const weight = WEIGHTS[level(wishes, name)] * (factors[name] || 1);
    sum += weight * worth(method, name, wishes);
    total += weight;
  }
  return total ? sum / total : NaN;
}

/** The property in which a method falls most behind the best one there, among those whose grade is known. */
function sacrifice(method, methods, weighed, wishes) {
  let worst = null;
  for (const name of weighed.filter((each) => method.grades[each] !== null)) {
    const rivals = methods.filter((one) => one.grades[name] !== null);
    const ahead = (one, other) => worth(one, name, wishes) - worth(other, name, wishes) || (one.label < other.label ? 1 : -1);
    const best = rivals.reduce((one, other) => (ahead(other, one) > 0 ? other : one));
    const behind = worth(best, name, wishes) - worth(method, name, wishes), weight = WEIGHTS[level(wishes, name)];
    if (behind > 1e-9 && (!worst || behind > worst.behind + 1e-12 || (Math.abs(behind - worst.behind) <= 1e-12 && weight > worst.weight)))
      worst = { name, best, behind, weight };
  }
  return worst;
}

/** The properties that put one method before the next, most first. */
function decided(method, next, weighed, wishes) {
  return weighed
    .map((name) => ({ name, gap: WEIGHTS[level(wishes, name)] * (worth(method, name, wishes) - worth(next, name, wishes)) }))
    .filter((one) => one.gap > 1e-9)
    .sort((one, other) => other.gap - one.gap);
}

/** Those that the choice is among: all that meet everything or, if there are none, all that may. */
function contenders(entries) {
  const met = entries.filter((one) => one.state === "met");
  return met.length ? met : entries.filter((one) => one.state === "not known");
}

/** Where a method is deaf to picture, answer or model though nobody asked, in the words of `snellen recommend`. */
function unasked(entry, wishes) {
  return Object.entries(entry.method.deaf).filter(([name]) => level(wishes, name) === "unimportant");
}

/** The three that come closest where none meets everything. */
function nearest(entries) {
  const unmet = (one) => one.needs.filter((need) => need.state !== "met");
  const lack = (one) => rounded(unmet(one).reduce((sum, need) => sum + need.short, 0));
  return [...entries].sort((one, other) => unmet(one).length - unmet(other).length || lack(one) - lack(other) || one.place - other.place).slice(0, 3);
}

/** In which share of draws each comes first, when every weight may be up to half or twice as large. */
function stability(entries, wishes) {
  const wins = new Map(entries.map((one) => [one, 0])), next = dice(1);
  if (!entries.length || Number.isNaN(entries[0].score)) return wins;
  const names = Object.keys(wishes.levels);
  for (let draw = 0; draw < DRAWS; draw++) {
    const factors = {};
    for (const name of names) factors[name] = 2 ** (2 * next() - 1);
    let best = null, most = -Infinity;
    for (const one of entries) {
      const value = rounded(score(one.method, wishes, factors));
      if (value > most) { most = value; best = one; }
    }
    wins.set(best, wins.get(best) + 1);
  }
  return new Map([...wins].map(([one, count]) => [one, count / DRAWS]));
}

/** Numbers between 0 and 1 that are the same on every visit (mulberry32). */
function dice(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
