/* SPDX-License-Identifier: MIT */
/* Where threads go on invented machines, and whether the team's barrier holds. */
#include "config.h"

#include <glib/gstdio.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "cpu/team.h"
#include "tests/suite.h"

static hwloc_topology_t
synthetic(const char *description)
{
    hwloc_topology_t topology;

    ck_assert_int_eq(hwloc_topology_init(&topology), 0);
    ck_assert_int_eq(hwloc_topology_set_synthetic(topology, description), 0);
    ck_assert_int_eq(hwloc_topology_load(topology), 0);
    return topology;
}

static void
check_cpus(const SluiceCpuPlacement *p, const unsigned *cpus, int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_uint_eq(p->cpus[i], cpus[i]);
}

START_TEST(four_cores_with_two_threads_each_get_four)
{
    hwloc_topology_t topology = synthetic("package:1 core:4 pu:2");
    g_auto(SluiceCpuPlacement) p = {0};
    static const unsigned cpus[] = {0, 2, 4, 6, 1, 3, 5, 7};

    sluice_cpu_placement_init(&p, topology, NULL, "/nonexistent");
    ck_assert_int_eq(p.n_default, 4);
    ck_assert_int_eq(p.n_cpus, 8);
    check_cpus(&p, cpus, 8);
    ck_assert(p.quota == 0);
    hwloc_topology_destroy(topology);
}
END_TEST

START_TEST(two_sockets_use_the_cores_of_both)
{
    hwloc_topology_t topology = synthetic("package:2 numanode:1 core:8 pu:2");
    g_auto(SluiceCpuPlacement) p = {0};

    sluice_cpu_placement_init(&p, topology, NULL, "/nonexistent");
    ck_assert_int_eq(p.n_default, 16);
    ck_assert_int_eq(p.n_cpus, 32);
    for (int i = 0; i < 16; i++)
        ck_assert_uint_eq(p.cpus[i], (unsigned) (2 * i));
    hwloc_topology_destroy(topology);
}
END_TEST

/* A laptop: processors 0 to 11 are six fast cores of two threads, 12 to 19 eight slow ones. Cores
 * of the synthetic machine have two threads throughout; the slow ones use the first alone. */
START_TEST(slow_cores_of_a_hybrid_are_left_out)
{
    hwloc_topology_t topology = synthetic("package:1 core:14 pu:2");
    hwloc_bitmap_t fast = hwloc_bitmap_alloc();
    hwloc_bitmap_t slow = hwloc_bitmap_alloc();
    g_auto(SluiceCpuPlacement) p = {0};
    g_auto(SluiceCpuPlacement) slow_only = {0};

    hwloc_bitmap_set_range(fast, 0, 11);
    hwloc_bitmap_set_range(slow, 12, 27);
    ck_assert_int_eq(hwloc_cpukinds_register(topology, slow, 1, 0, NULL, 0), 0);
    ck_assert_int_eq(hwloc_cpukinds_register(topology, fast, 10, 0, NULL, 0), 0);
    sluice_cpu_placement_init(&p, topology, NULL, "/nonexistent");
    ck_assert_int_eq(p.n_default, 6);
    for (int i = 0; i < 6; i++)
        ck_assert_uint_eq(p.cpus[i], (unsigned) (2 * i));
    /* Then the slow cores, and second threads last. */
    ck_assert_uint_eq(p.cpus[6], 12);
    ck_assert_uint_eq(p.cpus[13], 26);
    ck_assert_uint_eq(p.cpus[14], 1);
    ck_assert_int_eq(p.n_cpus, 28);
    /* Where only slow ones are allowed they are better than none. */
    sluice_cpu_placement_init(&slow_only, topology, slow, "/nonexistent");
    ck_assert_int_eq(slow_only.n_default, 8);
    ck_assert_uint_eq(slow_only.cpus[0], 12);
    hwloc_bitmap_free(fast);
    hwloc_bitmap_free(slow);
    hwloc_topology_destroy(topology);
}
END_TEST

START_TEST(only_allowed_processors_are_used)
{
    hwloc_topology_t topology = synthetic("package:1 core:4 pu:2");
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    g_auto(SluiceCpuPlacement) p = {0};
    static const unsigned cpus[] = {3, 4, 5};

    hwloc_bitmap_set_range(allowed, 3, 5);
    sluice_cpu_placement_init(&p, topology, allowed, "/nonexistent");
    ck_assert_int_eq(p.n_default, 2);
    ck_assert_int_eq(p.n_cpus, 3);
    check_cpus(&p, cpus, 3);
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(topology);
}
END_TEST

static void
write_file(const char *root, const char *path, const char *text)
{
    g_autofree char *full = g_build_filename(root, path, NULL);
    g_autofree char *folder = g_path_get_dirname(full);

    ck_assert_int_eq(g_mkdir_with_parents(folder, 0700), 0);
    ck_assert(g_file_set_contents(full, text, -1, NULL));
}

static void
remove_tree(const char *path)
{
    GDir *dir = g_dir_open(path, 0, NULL);
    const char *name;

    while (dir != NULL && (name = g_dir_read_name(dir)) != NULL) {
        g_autofree char *child = g_build_filename(path, name, NULL);
        if (g_file_test(child, G_FILE_TEST_IS_DIR))
            remove_tree(child);
        else
            g_remove(child);
    }
    if (dir != NULL)
        g_dir_close(dir);
    g_rmdir(path);
}

/* Default threads and quota of an eight-core machine whose files are these. */
static void
check_quota(const char *const *files, double quota, int n_default)
{
    hwloc_topology_t topology = synthetic("package:1 core:8 pu:1");
    g_autofree char *root = g_dir_make_tmp("sluice-team-XXXXXX", NULL);
    g_auto(SluiceCpuPlacement) p = {0};

    for (; *files != NULL; files += 2)
        write_file(root, files[0], files[1]);
    sluice_cpu_placement_init(&p, topology, NULL, root);
    remove_tree(root);
    ck_assert_double_eq_tol(p.quota, quota, 1e-9);
    ck_assert_int_eq(p.n_default, n_default);
    ck_assert_int_eq(p.n_cores, 8);
    hwloc_topology_destroy(topology);
}

START_TEST(quotas_of_control_groups_limit_the_default)
{
    static const char *const v2[] = {"proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max",
                                     "350000 100000\n", NULL};
    static const char *const parent[] = {"proc/self/cgroup",
                                         "0::/a/b\n",
                                         "sys/fs/cgroup/a/b/cpu.max",
                                         "max 100000\n",
                                         "sys/fs/cgroup/a/cpu.max",
                                         "50000 100000\n",
                                         NULL};
    static const char *const open[] = {"proc/self/cgroup", "0::/\n", "sys/fs/cgroup/cpu.max",
                                       "max 100000\n", NULL};
    static const char *const v1[] = {"proc/self/cgroup",
                                     "4:memory:/x\n3:cpu,cpuacct:/docker/7\n",
                                     "sys/fs/cgroup/cpu,cpuacct/docker/7/cpu.cfs_quota_us",
                                     "200000\n",
                                     "sys/fs/cgroup/cpu,cpuacct/docker/7/cpu.cfs_period_us",
                                     "100000\n",
                                     NULL};
    static const char *const v1_open[] = {"proc/self/cgroup",
                                          "3:cpu:/\n",
                                          "sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                          "-1\n",
                                          "sys/fs/cgroup/cpu/cpu.cfs_period_us",
                                          "100000\n",
                                          NULL};

    check_quota(v2, 3.5, 3);
    check_quota(parent, 0.5, 1);
    check_quota(open, 0, 8);
    check_quota(v1, 2, 2);
    check_quota(v1_open, 0, 8);
}
END_TEST

/* ---- the team ------------------------------------------------------------------------------- */

enum { N_ROUNDS = 300 };

typedef struct {
    SluiceCpuTeam *team;
    int values[64];    /* plain: each round one member writes, after the barrier all read */
    int serial;        /* plain: only the last to arrive touches it */
    _Atomic int n_bad; /* rounds in which somebody saw an old value */
    _Atomic int n_members_seen;
} Shared;

static void
run_rounds(void *data, int member, int n_members)
{
    Shared *s = data;

    atomic_fetch_add(&s->n_members_seen, 1);
    for (int round = 1; round <= N_ROUNDS; round++) {
        s->values[member] = round;
        if (sluice_cpu_team_arrive(s->team)) {
            s->serial++;
            sluice_cpu_team_release(s->team);
        }
        for (int i = 0; i < n_members; i++) {
            if (s->values[i] != round)
                atomic_fetch_add(&s->n_bad, 1);
        }
        if (s->serial != 2 * round - 1)
            atomic_fetch_add(&s->n_bad, 1);
        if (sluice_cpu_team_arrive(s->team)) {
            s->serial++;
            sluice_cpu_team_release(s->team);
        }
    }
}

START_TEST(barrier_orders_what_members_write)
{
    static const int threads[] = {1, 2, 3, 8};
    g_auto(SluiceCpuPlacement) placement = {0};
    g_autoptr(SluiceCpuTeam) team = NULL;

    ck_assert(sluice_cpu_placement_init_host(&placement, NULL));
    team = sluice_cpu_team_new(&placement, threads[_i], _i % 2, NULL);
    ck_assert_ptr_nonnull(team);
    ck_assert_int_eq(sluice_cpu_team_n_threads(team), threads[_i]);
    /* Launches of changing size, so that workers miss some. */
    for (int launch = 0; launch < 6; launch++) {
        Shared s = {.team = team};
        int n = launch % 2 == 0 ? threads[_i] : MAX(1, threads[_i] - 1);
        sluice_cpu_team_run(team, n, run_rounds, &s);
        ck_assert_int_eq(s.n_bad, 0);
        ck_assert_int_eq(s.n_members_seen, n);
        ck_assert_int_eq(s.serial, 2 * N_ROUNDS);
        if (launch == 3)
            g_usleep(30000); /* long enough for the workers to fall asleep */
    }
}
END_TEST

START_TEST(callers_keep_their_own_processors)
{
#ifdef __linux__
    g_auto(SluiceCpuPlacement) placement = {0};
    g_autoptr(SluiceCpuTeam) team = NULL;
    cpu_set_t before, after;
    Shared s = {0};

    ck_assert(sluice_cpu_placement_init_host(&placement, NULL));
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    s.team = team = sluice_cpu_team_new(&placement, MIN(2, placement.n_cpus), TRUE, NULL);
    sluice_cpu_team_run(team, 2, run_rounds, &s);
    ck_assert_int_eq(sched_getaffinity(0, sizeof after, &after), 0);
    ck_assert(CPU_EQUAL(&before, &after));
#endif
}
END_TEST

static void
count_blocked(void *data, int member, int n_members)
{
    sigset_t mask;

    (void) n_members;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (member > 0 && sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1)
        atomic_fetch_add((_Atomic int *) data, 1);
}

START_TEST(signals_are_never_a_workers)
{
    g_auto(SluiceCpuPlacement) placement = {0};
    g_autoptr(SluiceCpuTeam) team = NULL;
    _Atomic int n_blocked = 0;
    sigset_t mask;

    ck_assert(sluice_cpu_placement_init_host(&placement, NULL));
    team = sluice_cpu_team_new(&placement, 3, FALSE, NULL);
    ck_assert_ptr_nonnull(team);
    sluice_cpu_team_run(team, 3, count_blocked, &n_blocked);
    ck_assert_int_eq(n_blocked, 2);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    ck_assert_int_eq(sigismember(&mask, SIGINT), 0);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("team");
    TCase *placement = tcase_create("placement");
    TCase *team = tcase_create("team");

    tcase_add_test(placement, four_cores_with_two_threads_each_get_four);
    tcase_add_test(placement, two_sockets_use_the_cores_of_both);
    tcase_add_test(placement, slow_cores_of_a_hybrid_are_left_out);
    tcase_add_test(placement, only_allowed_processors_are_used);
    tcase_add_test(placement, quotas_of_control_groups_limit_the_default);
    suite_add_tcase(suite, placement);
    tcase_set_timeout(team, 60);
    tcase_add_loop_test(team, barrier_orders_what_members_write, 0, 4);
    tcase_add_test(team, callers_keep_their_own_processors);
    tcase_add_test(team, signals_are_never_a_workers);
    suite_add_tcase(suite, team);
    return sluice_test_run(suite);
}
