#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/sampler.txt: what each chain of stages draws, by a plain implementation.

Every stage is written from its definition in float64 over whole sorted lists; the generator is
numpy's MT19937. Needs numpy.

    make_sampler_golden.py > tests/data/sampler.txt

A line of chains: "chain key=value ... : ids", one id for each of N_DRAWS logit vectors drawn from
the seeds first, first + 1, ...; the last four ids drawn (and a fixed start) are the history.
A line of DRY: "dry key=value ... : id=penalty ...".
"""
import math

import numpy as np

N_VOCAB, N_DRAWS = 256, 24
START = [7, 9, 7, 11]


def logits_of(seed, scale):
    """The test makes the same numbers: a 32-bit congruential generator, 24 bits of each state."""
    out, s = [], seed & 0xFFFFFFFF
    for _ in range(N_VOCAB):
        s = (s * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(np.float32(((s >> 8) / 2.0**24 - 0.5) * scale))
    return out


class Rng:
    def __init__(self, seed):
        self.bits = np.random.RandomState(seed)._bit_generator

    def word(self):
        return int(self.bits.random_raw())

    def double(self):
        low = self.word()
        return (low + self.word() * 2**32) / 2**64

    def single(self):
        return self.word() / 2**32


def softmax(cand):
    m = max(l for _, l in cand)
    e = [math.exp(l - m) for _, l in cand]
    return [x / sum(e) for x in e]


def ranked(cand):
    return sorted(cand, key=lambda c: (-c[1], c[0]))


def top_k(cand, k):
    return ranked(cand)[:k] if k > 0 else cand


def top_p(cand, p):
    if p >= 1:
        return cand
    cand, total = ranked(cand), 0.0
    for i, q in enumerate(softmax(cand)):
        total += q
        if total >= p:
            return cand[:i + 1]
    return cand


def min_p(cand, p):
    if p <= 0:
        return cand
    limit = max(l for _, l in cand) + math.log(p)
    return [c for c in cand if c[1] >= limit]


def typical(cand, p):
    if p >= 1:
        return cand
    probs = softmax(cand)
    h = -sum(q * math.log(q) for q in probs if q > 0)
    order = sorted(range(len(cand)), key=lambda i: abs(-math.log(probs[i]) - h))
    kept, total = [], 0.0
    for i in order:
        kept.append(cand[i])
        total += probs[i]
        if total > p:
            break
    return ranked(kept)


def top_n_sigma(cand, n):
    if n <= 0:
        return cand
    v = np.array([l for _, l in cand], dtype=np.float64)
    return [c for c in cand if c[1] >= v.max() - n * v.std()]


def xtc(cand, probability, threshold, rng):
    if probability <= 0 or threshold > 0.5:
        return cand
    if rng.single() > probability:
        return cand
    cand = ranked(cand)
    n = sum(q >= threshold for q in softmax(cand))
    return cand[n - 1:] if n > 1 else cand


def temperature(cand, t, delta, exponent):
    if delta > 0 and len(cand) > 1:
        probs = softmax(cand)
        h = -sum(q * math.log(q) for q in probs if q > 0) / math.log(len(cand))
        t = max(0.0, t - delta) + (t + delta - max(0.0, t - delta)) * h**exponent
    if t <= 0:
        return ranked(cand)[:1]
    return [(i, l / t) for i, l in cand]


def penalties(cand, history, repeat, frequency, presence):
    out = []
    for i, l in cand:
        n = history.count(i)
        if n:
            l = l * repeat if l <= 0 else l / repeat
            l -= n * frequency + presence
        out.append((i, l))
    return out


def pick(cand, u):
    probs = softmax(cand)
    total, at = sum(probs), 0.0
    for (i, _), q in zip(cand, probs):
        at += q
        if at >= u * total:
            return i, q
    return cand[-1][0], probs[-1]


DEFAULTS = dict(seed=1, first=1, scale=10.0, temperature=0.8, dynatemp_range=0.0, dynatemp_exponent=1.0,
                top_k=40, top_p=0.95, min_p=0.05, typical_p=1.0, top_n_sigma=-1.0, xtc_probability=0.0,
                xtc_threshold=0.1, repeat_penalty=1.0, frequency_penalty=0.0, presence_penalty=0.0,
                penalty_last_n=64, mirostat=0, mirostat_tau=5.0, mirostat_eta=0.1, order=None)
USUAL = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]


def mirostat(cand, a, mu, rng):
    cand = ranked(cand)
    probs = softmax(cand)
    if a["mirostat"] == 2:
        n = sum(-math.log2(q) <= mu for q in probs)
        cand = cand[:max(1, n)]
    else:
        t = [math.log((i + 2) / (i + 1)) for i in range(min(99, len(cand) - 1))]
        b = [math.log(probs[i] / probs[i + 1]) for i in range(len(t))]
        s = sum(x * y for x, y in zip(t, b)) / sum(x * x for x in t)
        eps = s - 1
        k = ((eps * 2**mu) / (1 - N_VOCAB**-eps))**(1 / s)
        cand = cand[:max(1, int(min(k, len(cand))))]
    i, q = pick(cand, rng.double())
    return i, mu - a["mirostat_eta"] * (-math.log2(q) - a["mirostat_tau"])


def chain(**given):
    a = {**DEFAULTS, **given}
    rng, xtc_rng = Rng(a["seed"]), Rng(a["seed"])
    history, ids, mu = list(START), [], 2 * a["mirostat_tau"]
    for n in range(N_DRAWS):
        cand = [(i, float(l)) for i, l in enumerate(logits_of(a["first"] + n, a["scale"]))]
        last = history if a["penalty_last_n"] < 0 else history[max(0, len(history) - a["penalty_last_n"]):]
        for stage in a["order"].split(";") if a["order"] else USUAL:
            greedy = a["temperature"] <= 0
            if stage == "penalties" and a["penalty_last_n"] != 0 and not a["mirostat"]:
                cand = penalties(cand, last, a["repeat_penalty"], a["frequency_penalty"], a["presence_penalty"])
            elif stage == "temperature" and not greedy:
                cand = temperature(cand, a["temperature"], a["dynatemp_range"], a["dynatemp_exponent"])
            elif a["mirostat"] or greedy:
                continue
            elif stage == "top_n_sigma":
                cand = top_n_sigma(cand, a["top_n_sigma"])
            elif stage == "top_k":
                cand = top_k(cand, a["top_k"])
            elif stage == "typ_p":
                cand = typical(cand, a["typical_p"])
            elif stage == "top_p":
                cand = top_p(cand, a["top_p"])
            elif stage == "min_p":
                cand = min_p(cand, a["min_p"])
            elif stage == "xtc":
                cand = xtc(cand, a["xtc_probability"], a["xtc_threshold"], xtc_rng)
        if a["temperature"] <= 0:
            drawn = ranked(cand)[0][0]
        elif a["mirostat"]:
            drawn, mu = mirostat(cand, a, mu, rng)
        else:
            drawn, _ = pick(cand, rng.double())
        ids.append(drawn)
        history.append(drawn)
    print("chain", *(f"{k}={v}" for k, v in given.items()), ":", *ids)


def dry(history, multiplier, base, allowed, breakers):
    """Quadratic, straight from the definition."""
    n, limit = len(history), len(history)
    for at in range(n - 1, -1, -1):
        found = [b for b in breakers if history[at:at + len(b)] == b]
        if found:
            limit = n - at - max(map(len, found))
            break
    penalty = {}
    if limit >= allowed and limit > 0:
        for j in range(1, n):  # history[j] would follow history[:j]
            k = 0
            while k < min(j, limit) and history[j - 1 - k] == history[n - 1 - k]:
                k += 1
            if k >= max(1, allowed) and [history[j]] not in breakers:
                penalty[history[j]] = max(penalty.get(history[j], 0), k)
    cap = 88.72 / math.log(base) if base > 1.000001 else math.inf
    text = ",".join("+".join(map(str, b)) for b in breakers)
    print("dry", f"multiplier={multiplier} base={base} allowed={allowed} breakers={text}",
          "history=" + ",".join(map(str, history)), ":",
          *(f"{i}={multiplier * base**min(k - allowed, cap):.9g}" for i, k in sorted(penalty.items())))


NONE = dict(top_k=0, top_p=1.0, min_p=0.0)

if __name__ == "__main__":
    chain()
    chain(seed=42, scale=4.0)
    chain(seed=4294967294, first=100, scale=20.0)
    chain(temperature=0.0, first=30)
    chain(temperature=1.0, **NONE)
    chain(temperature=1.7, scale=30.0, **NONE)
    chain(top_k=1)
    chain(top_k=5, top_p=1.0, min_p=0.0)
    chain(top_k=0, top_p=0.5, min_p=0.0, scale=6.0)
    chain(top_k=0, top_p=0.9, min_p=0.0, scale=2.0)
    chain(top_k=0, top_p=1.0, min_p=0.3, scale=14.0)
    chain(typical_p=0.6, top_k=0, top_p=1.0, min_p=0.0, scale=12.0)
    chain(top_n_sigma=1.0, **NONE)
    chain(top_n_sigma=0.4, temperature=2.0, scale=9.0, **NONE)
    chain(xtc_probability=0.5, scale=30.0, top_k=0, min_p=0.02, seed=5)
    chain(xtc_probability=1.0, xtc_threshold=0.05, scale=40.0, seed=6)
    chain(temperature=0.9, dynatemp_range=0.5, dynatemp_exponent=1.3, scale=16.0)
    chain(temperature=0.4, dynatemp_range=0.8, scale=25.0, top_k=0)
    chain(repeat_penalty=1.3, scale=20.0, penalty_last_n=4)
    chain(repeat_penalty=0.5, frequency_penalty=0.7, presence_penalty=-0.4, penalty_last_n=-1, seed=8)
    chain(temperature=0.0, repeat_penalty=1.5, presence_penalty=2.0, scale=1.0)
    chain(mirostat=1, scale=16.0, seed=11)
    chain(mirostat=2, scale=16.0, seed=12)
    chain(mirostat=2, mirostat_tau=2.0, mirostat_eta=0.5, temperature=1.2, scale=20.0, seed=13)
    chain(order="temperature;min_p;top_k", temperature=1.5, top_k=9, scale=14.0)
    chain(order="top_p;penalties", top_p=0.8, repeat_penalty=2.0, scale=18.0, temperature=0.5)

    r = np.random.RandomState(3)
    dry([1, 2, 3, 4, 1, 2, 3], 0.8, 1.75, 2, [])
    dry([1, 2, 3, 4, 1, 2, 3], 0.8, 1.75, 4, [])
    dry([5, 5, 5, 5, 5, 5], 1.0, 2.0, 1, [])
    dry([1, 2, 9, 3, 4, 1, 2, 9, 3], 1.0, 1.5, 1, [[9]])
    dry([1, 2, 9, 8, 3, 4, 1, 2, 9, 8, 3, 4], 1.0, 1.5, 1, [[9, 8]])
    dry([1, 2, 7, 4, 1, 2], 1.0, 1.5, 1, [[7]])
    dry([6] * 300, 0.5, 1.75, 2, [])
    for _ in range(8):
        h = [int(x) for x in r.randint(0, 4, size=60)]
        dry(h, 0.8, 1.75, int(r.randint(0, 5)), [[3], [2, 1]] if r.randint(2) else [])
