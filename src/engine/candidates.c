/* SPDX-License-Identifier: MIT */
/*
 * Stages of sampling. Sources: top-p, Holtzman et al. 2019, arXiv:1904.09751; typical-p, Meister
 * et al. 2022, arXiv:2202.00666; min-p, Nguyen et al. 2024, arXiv:2407.01082; top-n-sigma, Tang et
 * al. 2024, arXiv:2411.07641; mirostat, Basu et al. 2020, arXiv:2007.14966.
 */
#include "config.h"

#include "src/engine/candidates.h"

#include <math.h>
#include <stdlib.h>

/* Items that stages ask to have sorted first; each further request is four times as long. */
#define FIRST_SORTED 64
/* Mirostat's first version estimates its exponent from so many candidates. */
#define MIROSTAT_N 100

static inline bool
is_better(SluiceCandidate a, SluiceCandidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static int
compare_candidates(const void *a, const void *b)
{
    const SluiceCandidate *x = a, *y = b;

    return is_better(*x, *y) ? -1 : is_better(*y, *x);
}

/* The root of the heap is the worst of its items. */
static void
sift_down(SluiceCandidate *heap, int32_t n, int32_t i)
{
    SluiceCandidate item = heap[i];

    for (;;) {
        int32_t child = 2 * i + 1;

        if (child >= n)
            break;
        if (child + 1 < n && is_better(heap[child], heap[child + 1]))
            child++;
        if (!is_better(item, heap[child]))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = item;
}

static void
make_heap(SluiceCandidate *heap, int32_t n)
{
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(heap, n, i);
}

static inline float
sane(float logit)
{
    return isnan(logit) ? -INFINITY : logit;
}

void
sluice_candidates_load(SluiceCandidates *c, const float *logits, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        c->items[i] = (SluiceCandidate){.id = i, .logit = sane(logits[i])};
    c->n = n;
    c->n_sorted = 0;
}

/**
 * sluice_candidates_load_top_k:
 * @c: room for @k items at least
 * @logits: [n]
 * @n: ids
 * @k: how many of them are kept; above 0
 *
 * One pass with a heap of k: most logits cost one comparison.
 */
void
sluice_candidates_load_top_k(SluiceCandidates *c, const float *logits, int32_t n, int32_t k)
{
    k = MIN(k, n);
    sluice_candidates_load(c, logits, k);
    make_heap(c->items, k);
    for (int32_t i = k; i < n; i++) {
        /* Later ids lose ties, so that only a larger logit gets in. */
        if (logits[i] > c->items[0].logit) {
            c->items[0] = (SluiceCandidate){.id = i, .logit = logits[i]};
            sift_down(c->items, k, 0);
        }
    }
    sluice_candidates_sort(c, k);
}

/**
 * sluice_candidates_sort:
 * @c: candidates
 * @n: how many of the best must be in order in front
 */
void
sluice_candidates_sort(SluiceCandidates *c, int32_t n)
{
    SluiceCandidate *rest = c->items + c->n_sorted;
    int32_t n_rest = c->n - c->n_sorted;
    int32_t k = MIN(n, c->n) - c->n_sorted;

    if (k <= 0)
        return;
    if (k < n_rest) {
        make_heap(rest, k);
        for (int32_t i = k; i < n_rest; i++) {
            if (is_better(rest[i], rest[0])) {
                SluiceCandidate item = rest[0];

                rest[0] = rest[i];
                rest[i] = item;
                sift_down(rest, k, 0);
            }
        }
    }
    qsort(rest, (size_t) k, sizeof rest[0], compare_candidates);
    c->n_sorted += k;
}

/* Item i in the order of falling logits. */
static const SluiceCandidate *
ranked(SluiceCandidates *c, int32_t i)
{
    if (i >= c->n_sorted)
        sluice_candidates_sort(c, MAX(FIRST_SORTED, MIN(c->n, 4 * c->n_sorted)));
    if (i >= c->n_sorted)
        sluice_candidates_sort(c, i + 1);
    return &c->items[i];
}

float
sluice_candidates_max(const SluiceCandidates *c)
{
    float max = -INFINITY;

    if (c->n_sorted > 0)
        return c->items[0].logit;
    for (int32_t i = 0; i < c->n; i++)
        max = MAX(max, c->items[i].logit);
    return max;
}

/**
 * sluice_candidates_softmax:
 * @c: at least one candidate
 *
 * Sets every p. Where no logit is above minus infinity all are alike.
 */
void
sluice_candidates_softmax(SluiceCandidates *c)
{
    float max = sluice_candidates_max(c);
    double sum = 0.0;

    for (int32_t i = 0; i < c->n; i++) {
        float d = c->items[i].logit - max;

        /* The difference of infinities is not a number: as likely as the most likely one. */
        c->items[i].p = isnan(d) ? 1.0f : expf(d);
        sum += c->items[i].p;
    }
    for (int32_t i = 0; i < c->n; i++)
        c->items[i].p = (float) (c->items[i].p / sum);
}

/* Keeps the best n, which are sorted already. */
static void
keep_first(SluiceCandidates *c, int32_t n)
{
    g_assert(n >= 1 && n <= c->n_sorted);
    c->n = c->n_sorted = n;
}

/**
 * sluice_candidates_top_k:
 * @c: candidates
 * @k: how many are kept; 0 or less: all
 */
void
sluice_candidates_top_k(SluiceCandidates *c, int32_t k)
{
    if (k <= 0)
        return;
    sluice_candidates_sort(c, k);
    keep_first(c, MIN(k, c->n));
}

/**
 * sluice_candidates_top_p:
 * @c: candidates
 * @top_p: keeps the shortest run of the best whose probabilities reach this; 1 or more: all
 */
void
sluice_candidates_top_p(SluiceCandidates *c, float top_p)
{
    double sum = 0.0;

    if (top_p >= 1.0f)
        return;
    sluice_candidates_softmax(c);
    for (int32_t i = 0; i < c->n; i++) {
        sum += ranked(c, i)->p;
        if (sum >= top_p) {
            keep_first(c, i + 1);
            return;
        }
    }
}

/* Removes what is below a logit; order stays. */
static void
drop_below(SluiceCandidates *c, float threshold)
{
    int32_t n = 0, n_sorted = 0;

    for (int32_t i = 0; i < c->n; i++) {
        if (c->items[i].logit >= threshold) {
            c->items[n++] = c->items[i];
            n_sorted += i < c->n_sorted;
        }
    }
    if (n == 0)
        return;
    c->n = n;
    c->n_sorted = n_sorted;
}

/**
 * sluice_candidates_min_p:
 * @c: candidates
 * @min_p: least probability, as a share of the largest one; 0 or less: all stay
 */
void
sluice_candidates_min_p(SluiceCandidates *c, float min_p)
{
    if (min_p > 0.0f)
        drop_below(c, sluice_candidates_max(c) + logf(min_p));
}

/**
 * sluice_candidates_top_n_sigma:
 * @c: candidates
 * @n_sigma: logits further below the largest than this many standard deviations go; 0 or less: none
 */
void
sluice_candidates_top_n_sigma(SluiceCandidates *c, float n_sigma)
{
    double sum = 0.0, sum_squares = 0.0, mean;
    int32_t n = 0;

    if (n_sigma <= 0.0f)
        return;
    for (int32_t i = 0; i < c->n; i++) {
        if (isfinite(c->items[i].logit)) {
            sum += c->items[i].logit;
            n++;
        }
    }
    if (n == 0)
        return;
    mean = sum / n;
    for (int32_t i = 0; i < c->n; i++) {
        double d = c->items[i].logit - mean;

        if (isfinite(d))
            sum_squares += d * d;
    }
    drop_below(c, (float) (sluice_candidates_max(c) - n_sigma * sqrt(sum_squares / n)));
}

/* -sum p ln p of the last softmax. */
static double
entropy(const SluiceCandidates *c)
{
    double h = 0.0;

    for (int32_t i = 0; i < c->n; i++) {
        double p = c->items[i].p;

        if (p > 0.0)
            h -= p * log(p);
    }
    return h;
}

typedef struct {
    double distance;
    SluiceCandidate item;
} Surprise;

static int
compare_surprises(const void *a, const void *b)
{
    const Surprise *x = a, *y = b;

    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return compare_candidates(&x->item, &y->item);
}

/**
 * sluice_candidates_typical:
 * @c: candidates
 * @typical_p: keeps those whose surprise is nearest to the entropy, until their probabilities
 *   exceed this; 1 or more: all
 *
 * Cost: O(n log n); what is left is sorted.
 */
void
sluice_candidates_typical(SluiceCandidates *c, float typical_p)
{
    g_autofree Surprise *order = NULL;
    double h, sum = 0.0;
    int32_t n = 0;

    if (typical_p >= 1.0f)
        return;
    sluice_candidates_softmax(c);
    h = entropy(c);
    order = g_new(Surprise, c->n);
    for (int32_t i = 0; i < c->n; i++)
        order[i] = (Surprise){fabs(-log(c->items[i].p) - h), c->items[i]};
    qsort(order, (size_t) c->n, sizeof order[0], compare_surprises);
    do {
        c->items[n] = order[n].item;
        sum += order[n].item.p;
        n++;
    } while (n < c->n && sum <= typical_p);
    c->n = n;
    c->n_sorted = 0;
    sluice_candidates_sort(c, n);
}

/**
 * sluice_candidates_xtc:
 * @c: candidates
 * @threshold: of those at least this probable, only the least probable one stays
 */
void
sluice_candidates_xtc(SluiceCandidates *c, float threshold)
{
    int32_t n_top = 0;

    sluice_candidates_softmax(c);
    while (n_top < c->n && ranked(c, n_top)->p >= threshold)
        n_top++;
    if (n_top < 2)
        return;
    for (int32_t i = n_top - 1; i < c->n; i++)
        c->items[i - (n_top - 1)] = c->items[i];
    c->n -= n_top - 1;
    c->n_sorted -= n_top - 1;
}

/**
 * sluice_candidates_temperature:
 * @c: candidates
 * @temperature: logits are divided by it; 0 or less: only the largest is kept
 * @range: dynamic temperature: how far around @temperature the entropy may move it; 0: fixed
 * @exponent: of the entropy's share
 */
void
sluice_candidates_temperature(SluiceCandidates *c, float temperature, float range, float exponent)
{
    if (range > 0.0f && c->n > 1) {
        double min = MAX(0.0f, temperature - range), max = temperature + range;

        sluice_candidates_softmax(c);
        temperature = (float) (min + (max - min) * pow(entropy(c) / log(c->n), exponent));
    }
    if (temperature <= 0.0f) {
        sluice_candidates_top_k(c, 1);
        return;
    }
    for (int32_t i = 0; i < c->n; i++)
        c->items[i].logit /= temperature;
}

/**
 * sluice_candidates_mirostat_v1:
 * @c: candidates
 * @mu: the surprise aimed at, in bits
 * @n_vocab: of the model
 *
 * Estimates the exponent of the distribution's tail and keeps as many candidates as give that
 * surprise.
 */
void
sluice_candidates_mirostat_v1(SluiceCandidates *c, float mu, int32_t n_vocab)
{
    double sum_tb = 0.0, sum_tt = 0.0, s, epsilon, k;

    sluice_candidates_softmax(c);
    sluice_candidates_sort(c, MIROSTAT_N);
    for (int32_t i = 0; i < MIROSTAT_N - 1 && i < c->n - 1; i++) {
        double t = log((i + 2.0) / (i + 1.0));
        double b = log((double) c->items[i].p / c->items[i + 1].p);

        sum_tb += t * b;
        sum_tt += t * t;
    }
    s = sum_tb / sum_tt;
    epsilon = s - 1.0;
    k = pow(epsilon * pow(2.0, mu) / (1.0 - pow(n_vocab, -epsilon)), 1.0 / s);
    /* One candidate, or a tail without slope, gives no estimate. */
    sluice_candidates_top_k(c, isfinite(k) && k < c->n ? MAX(1, (int32_t) k) : c->n);
    sluice_candidates_softmax(c);
}

/**
 * sluice_candidates_mirostat_v2:
 * @c: candidates
 * @mu: candidates more surprising than this many bits go; one stays always
 */
void
sluice_candidates_mirostat_v2(SluiceCandidates *c, float mu)
{
    int32_t n = 0;

    sluice_candidates_softmax(c);
    while (n < c->n && -log2f(ranked(c, n)->p) <= mu)
        n++;
    sluice_candidates_top_k(c, MAX(1, n));
    sluice_candidates_softmax(c);
}

const SluiceCandidate *
sluice_candidates_pick(const SluiceCandidates *c, double u)
{
    double total = 0.0, sum = 0.0;

    for (int32_t i = 0; i < c->n; i++)
        total += c->items[i].p;
    for (int32_t i = 0; i < c->n - 1; i++) {
        sum += c->items[i].p;
        if (sum >= u * total)
            return &c->items[i];
    }
    return &c->items[c->n - 1];
}
