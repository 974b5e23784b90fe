"use strict";
// The order of methods by what matters to a user: the same formula as `snellen recommend` (recommend.py).

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
    const state = STATES[Math.max(0, ...needs.map((need) => STATES.indexOf(need.state)))];
    return { method, needs, state, score: score(method, wishes, {}) };
  });
  entries.sort((first, second) => STATES.indexOf(first.state) - STATES.indexOf(second.state) || tied(second) - tied(first)
    || (first.method.label < second.method.label ? -1 : 1));
  entries.forEach((entry, at) => {
    const next = entries[at + 1];
    entry.place = at + 1;
    entry.sacrifice = sacrifice(entry.method, methods, weighed, wishes);
    entry.decided = next && next.state === entry.state ? decided(entry.method, next.method, weighed, wishes) : [];
    entry.open = weighed.filter((name) => level(wishes, name) !== "essential" && entry.method.grades[name] === null);
  });
  return entries;
}

/** A score for sorting; 0 where there is no score. */
const tied = (entry) => (Number.isNaN(entry.score) ? 0 : rounded(entry.score));

/** The first, and those with the same score. */
const alike = (entries) => entries.filter((entry) => tied(entry) === tied(entries[0]));

/** The needs (essential properties and conditions), and whether a method meets each. */
function needsOf(method, wishes) {
  const needs = Object.keys(method.grades).filter((name) => level(wishes, name) === "essential").map((name) => {
    const grade = method.grades[name];
    const state = grade === null ? "not known" : grade >= ENOUGH ? "met" : "missed";
    return { name, state, short: state === "met" ? 0 : state === "missed" ? ENOUGH - grade : 0.5 };
  });
  if (wishes.cost !== null) {
    const state = method.seconds === null ? "not known" : method.seconds <= wishes.cost ? "met" : "missed";
    needs.push({ name: "cost", state, short: state === "met" ? 0 : 0.5 });
  }
  if (wishes.blackBox) {
    const state = method.inside.length ? "missed" : "met";
    needs.push({ name: "black-box", state, short: state === "met" ? 0 : 0.5 });
  }
  return needs;
}

/** What a grade is worth: 1 − grade where it is unwanted, ½ where it is not known. */
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

/** The property in which a method is farthest behind the best method, among those whose grade is known. */
function sacrifice(method, methods, weighed, wishes) {
  let worst = null;
  for (const name of weighed.filter((each) => method.grades[each] !== null)) {
    const rivals = methods.filter((rival) => rival.grades[name] !== null);
    const ahead = (first, second) => worth(first, name, wishes) - worth(second, name, wishes) || (first.label < second.label ? 1 : -1);
    const best = rivals.reduce((first, second) => (ahead(second, first) > 0 ? second : first));
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
    .filter((difference) => difference.gap > 1e-9)
    .sort((first, second) => second.gap - first.gap);
}

/** The methods to choose from: those that meet all needs or, if there are none, those of which a need is not known. */
function contenders(entries) {
  const met = entries.filter((entry) => entry.state === "met");
  return met.length ? met : entries.filter((entry) => entry.state === "not known");
}

/** Warnings about low sensitivities that the user did not ask for, in the words of `snellen recommend`. */
function weakSensitivities(entry, wishes) {
  return Object.entries(entry.method.weak).filter(([name]) => level(wishes, name) === "unimportant");
}

/** The three that come closest where none meets everything. */
function nearest(entries) {
  const unmet = (entry) => entry.needs.filter((need) => need.state !== "met");
  const lack = (entry) => rounded(unmet(entry).reduce((sum, need) => sum + need.short, 0));
  return [...entries].sort((first, second) => unmet(first).length - unmet(second).length || lack(first) - lack(second) || first.place - second.place).slice(0, 3);
}

/** In which share of draws each comes first, when every weight may be half to twice as large. */
function stability(entries, wishes) {
  const wins = new Map(entries.map((entry) => [entry, 0])), next = dice(1);
  if (!entries.length || Number.isNaN(entries[0].score)) return wins;
  const names = Object.keys(wishes.levels);
  for (let draw = 0; draw < DRAWS; draw++) {
    const factors = {};
    for (const name of names) factors[name] = 2 ** (2 * next() - 1);
    let best = null, most = -Infinity;
    for (const entry of entries) {
      const value = rounded(score(entry.method, wishes, factors));
      if (value > most) { most = value; best = entry; }
    }
    wins.set(best, wins.get(best) + 1);
  }
  return new Map([...wins].map(([entry, count]) => [entry, count / DRAWS]));
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
