/* SPDX-License-Identifier: MIT */
/*
 * The worker threads. A launch is one word: its upper bits count launches and its lower bits are
 * the number of members, so that a worker that slept through some launches can still tell whether
 * the present one is for it. Waiting is the same everywhere: spin, then yield, then sleep on the
 * word (futex), and whoever changes the word wakes sleepers only where there are any.
 */
#include "config.h"

#include "cpu/team.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "src/core/error.h"

enum {
    LAUNCH_BITS = 10, /* of the number of members */
    LAUNCH_MASK = (1 << LAUNCH_BITS) - 1,
    /* About half a millisecond: longer than the gap between two tokens, shorter than a person's
     * pause. A pause is 40 to 140 cycles. */
    N_SPINS = 1 << 14,
    /* With more members than processors whoever we wait for may need our processor. */
    N_SPINS_CROWDED = 16,
    N_YIELDS = 64,
};

/* A word that members wait on, alone on its cache lines. */
typedef struct {
    _Atomic uint32_t value __attribute__((aligned(128)));
    _Atomic uint32_t n_sleepers;
} Signal;

typedef struct {
    SluiceCpuTeam *team;
    pthread_t thread;
    int member;
} Worker;

struct SluiceCpuTeam {
    Signal launch;
    Signal barrier;
    Signal done;                                              /* counts launches that ended */
    _Atomic uint32_t n_arrived __attribute__((aligned(128))); /* at the barrier */
    _Atomic uint32_t n_running __attribute__((aligned(128))); /* members, but for the caller */

    /* Written by the caller before the launch that publishes them. */
    SluiceCpuTeamFn fn __attribute__((aligned(128)));
    void *data;
    int n_members;

    int n_threads;
    int n_workers;
    bool is_pinned;
    bool is_crowded;
    unsigned *cpus;
    GMutex lock; /* one run at a time */
    Worker *workers;
};

/* ---- waiting -------------------------------------------------------------------------------- */

static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* One step of waiting for something that another thread or device does: pauses at first, then
 * gives the processor away. *n_pauses begins at 0. */
void
sluice_cpu_team_pause(unsigned *n_pauses)
{
    if (*n_pauses < N_SPINS) {
        (*n_pauses)++;
        relax();
    } else {
        sched_yield();
    }
}

static void
sleep_on(Signal *signal, uint32_t seen)
{
#ifdef __linux__
    syscall(SYS_futex, &signal->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
#else
    sched_yield();
#endif
}

static void
wake_all(Signal *signal)
{
#ifdef __linux__
    syscall(SYS_futex, &signal->value, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
#endif
}

/* Waits until the word is no longer `seen`; returns what it is then. */
static uint32_t
wait_change(SluiceCpuTeam *team, Signal *signal, uint32_t seen)
{
    unsigned n_spins = team->is_crowded ? N_SPINS_CROWDED : N_SPINS;
    uint32_t value;

    for (unsigned i = 0; i < n_spins; i++) {
        value = atomic_load_explicit(&signal->value, memory_order_acquire);
        if (value != seen)
            return value;
        relax();
    }
    for (unsigned i = 0; i < N_YIELDS; i++) {
        value = atomic_load_explicit(&signal->value, memory_order_acquire);
        if (value != seen)
            return value;
        sched_yield();
    }
    /* Sequentially consistent against set_value: either it sees us asleep and wakes us, or the
     * kernel sees its value and does not let us sleep. */
    atomic_fetch_add(&signal->n_sleepers, 1);
    while ((value = atomic_load(&signal->value)) == seen)
        sleep_on(signal, seen);
    atomic_fetch_sub(&signal->n_sleepers, 1);
    return value;
}

static void
set_value(Signal *signal, uint32_t value)
{
    atomic_store(&signal->value, value);
    if (atomic_load(&signal->n_sleepers) != 0)
        wake_all(signal);
}

/* ---- the barrier ---------------------------------------------------------------------------- */

/**
 * sluice_cpu_team_arrive:
 * @team: the team, inside a run
 *
 * Waits for the other members. The one that arrives last does not wait: it gets %TRUE, may do
 * work that only one thread should do, and lets the others go with sluice_cpu_team_release().
 *
 * Returns: whether the caller must release the others
 * Since: 0.1
 */
bool
sluice_cpu_team_arrive(SluiceCpuTeam *team)
{
    uint32_t seen;

    if (team->n_members == 1)
        return true;
    seen = atomic_load_explicit(&team->barrier.value, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&team->n_arrived, 1, memory_order_acq_rel) + 1 ==
        (uint32_t) team->n_members)
        return true;
    wait_change(team, &team->barrier, seen);
    return false;
}

/**
 * sluice_cpu_team_release:
 * @team: the team; the caller arrived last
 *
 * Lets the members that wait at the barrier go.
 *
 * Since: 0.1
 */
void
sluice_cpu_team_release(SluiceCpuTeam *team)
{
    if (team->n_members == 1)
        return;
    atomic_store_explicit(&team->n_arrived, 0, memory_order_relaxed);
    set_value(&team->barrier, atomic_load_explicit(&team->barrier.value, memory_order_relaxed) + 1);
}

/* ---- launches ------------------------------------------------------------------------------- */

static void
bind_thread(const SluiceCpuTeam *team, int member)
{
#ifdef __linux__
    cpu_set_t set;

    if (team->cpus[member] >= CPU_SETSIZE)
        return;
    CPU_ZERO(&set);
    CPU_SET(team->cpus[member], &set);
    /* Refused where another program narrowed our set meanwhile; then the scheduler decides. */
    (void) sched_setaffinity(0, sizeof set, &set);
#endif
}

static void *
run_worker(void *data)
{
    Worker *worker = data;
    SluiceCpuTeam *team = worker->team;
    uint32_t seen = 0;

    if (team->is_pinned)
        bind_thread(team, worker->member);
    for (;;) {
        uint32_t launch = wait_change(team, &team->launch, seen);
        int n_members = (int) (launch & LAUNCH_MASK);
        seen = launch;
        if (n_members == 0)
            return NULL;
        if (worker->member >= n_members)
            continue;
        team->fn(team->data, worker->member, n_members);
        if (atomic_fetch_sub_explicit(&team->n_running, 1, memory_order_acq_rel) == 1)
            set_value(&team->done,
                      atomic_load_explicit(&team->done.value, memory_order_relaxed) + 1);
    }
}

static void
launch(SluiceCpuTeam *team, int n_members)
{
    uint32_t word = atomic_load_explicit(&team->launch.value, memory_order_relaxed);

    set_value(&team->launch, ((word >> LAUNCH_BITS) + 1) << LAUNCH_BITS | (uint32_t) n_members);
}

/**
 * sluice_cpu_team_run:
 * @team: the team
 * @n_members: how many threads take part, the caller included
 * @fn: what each of them runs
 * @data: handed to @fn
 *
 * Runs @fn on every member and returns when all are done. The caller is member 0; while the team
 * is pinned it is bound to its processor for the time of the call and gets its own set back.
 * Threads: any, one run at a time.
 * Since: 0.1
 */
void
sluice_cpu_team_run(SluiceCpuTeam *team, int n_members, SluiceCpuTeamFn fn, void *data)
{
    uint32_t done;

    n_members = CLAMP(n_members, 1, team->n_threads);
    g_mutex_lock(&team->lock);
    team->n_members = n_members;
    if (n_members == 1) {
        fn(data, 0, 1);
        g_mutex_unlock(&team->lock);
        return;
    }
#ifdef __linux__
    cpu_set_t own;
    bool is_bound = team->is_pinned && sched_getaffinity(0, sizeof own, &own) == 0;
    if (is_bound)
        bind_thread(team, 0);
#endif
    team->fn = fn;
    team->data = data;
    done = atomic_load_explicit(&team->done.value, memory_order_relaxed);
    atomic_store_explicit(&team->n_running, (uint32_t) n_members - 1, memory_order_relaxed);
    launch(team, n_members);
    fn(data, 0, n_members);
    wait_change(team, &team->done, done);
#ifdef __linux__
    if (is_bound)
        (void) sched_setaffinity(0, sizeof own, &own);
#endif
    g_mutex_unlock(&team->lock);
}

/* Starts a worker with every signal blocked: signals are for the threads of the program, one of
 * which may be waiting for just that interruption. */
static int
start_worker(Worker *worker)
{
    sigset_t all, before;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&worker->thread, NULL, run_worker, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/**
 * sluice_cpu_team_new:
 * @placement: where threads may run
 * @n_threads: members, the caller's thread included; 0: the placement's default
 * @pin_threads: bind each member to its processor
 * @error: return location, or %NULL
 *
 * More members than processors are allowed: they are then not bound, and wait by giving their
 * processor away.
 *
 * Returns: (transfer full): the team, or %NULL with %SLUICE_ERROR_MEMORY if threads are not to be
 *   had
 * Since: 0.1
 */
SluiceCpuTeam *
sluice_cpu_team_new(const SluiceCpuPlacement *placement, int n_threads, gboolean pin_threads,
                    GError **error)
{
    SluiceCpuTeam *team;
    void *memory = NULL;

    if (n_threads <= 0)
        n_threads = placement->n_default;
    n_threads = MIN(n_threads, SLUICE_CPU_TEAM_MAX);
    if (posix_memalign(&memory, 128, sizeof *team) != 0) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY, "no memory for a team of %d threads",
                    n_threads);
        return NULL;
    }
    team = memory;
    memset(team, 0, sizeof *team);
    g_mutex_init(&team->lock);
    team->n_threads = n_threads;
    team->n_members = 1;
    team->is_crowded = n_threads > placement->n_cpus ||
                       (placement->quota > 0 && n_threads > (int) placement->quota + 1);
    team->is_pinned = pin_threads && n_threads <= placement->n_cpus;
    team->cpus = g_memdup2(placement->cpus, (gsize) placement->n_cpus * sizeof *team->cpus);
    team->workers = g_new0(Worker, n_threads);
    for (int i = 1; i < n_threads; i++) {
        Worker *worker = &team->workers[team->n_workers];
        int code;
        worker->team = team;
        worker->member = i;
        code = start_worker(worker);
        if (code != 0) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                        "thread %d of %d cannot be started: %s", i + 1, n_threads,
                        g_strerror(code));
            sluice_cpu_team_free(team);
            return NULL;
        }
        team->n_workers++;
    }
    return team;
}

/**
 * sluice_cpu_team_free:
 * @team: (nullable): a team that is not running
 *
 * Since: 0.1
 */
void
sluice_cpu_team_free(SluiceCpuTeam *team)
{
    if (team == NULL)
        return;
    launch(team, 0);
    for (int i = 0; i < team->n_workers; i++)
        pthread_join(team->workers[i].thread, NULL);
    g_free(team->workers);
    g_free(team->cpus);
    g_mutex_clear(&team->lock);
    free(team);
}

/**
 * sluice_cpu_team_n_threads:
 * @team: a team
 *
 * Returns: its members, the caller's thread included
 * Since: 0.1
 */
int
sluice_cpu_team_n_threads(const SluiceCpuTeam *team)
{
    return team->n_threads;
}
