/* SPDX-License-Identifier: MIT */
/*
 * Where the team's threads go: one per physical performance core inside the set of processors
 * that this process may use, and no more than the control group's quota pays for. The product of
 * a matrix and a vector is bound by memory, and its threads meet at a barrier some hundred times
 * per token: a slow core or a second hardware thread on the same core holds up all the others.
 */
#include "config.h"

#include "cpu/team.h"

#include <string.h>

#include "src/core/error.h"

/* ---- the quota of the control group --------------------------------------------------------- */

static char *
read_text(const char *root, const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(root, folder, name, NULL);
    char *text = NULL;

    return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

/* "max 100000" or "150000 100000" */
static double
quota_v2(const char *root, const char *folder)
{
    g_autofree char *text = read_text(root, folder, "cpu.max");
    gint64 quota;
    gint64 period;
    char *end;

    if (text == NULL || !g_ascii_isdigit(*text))
        return 0;
    quota = g_ascii_strtoll(text, &end, 10);
    period = g_ascii_strtoll(end, NULL, 10);
    return quota > 0 && period > 0 ? (double) quota / (double) period : 0;
}

static double
quota_v1(const char *root, const char *folder)
{
    g_autofree char *quota_text = read_text(root, folder, "cpu.cfs_quota_us");
    g_autofree char *period_text = read_text(root, folder, "cpu.cfs_period_us");
    gint64 quota = quota_text != NULL ? g_ascii_strtoll(quota_text, NULL, 10) : -1;
    gint64 period = period_text != NULL ? g_ascii_strtoll(period_text, NULL, 10) : 0;

    return quota > 0 && period > 0 ? (double) quota / (double) period : 0;
}

static double
smaller_quota(double a, double b)
{
    if (a == 0 || b == 0)
        return MAX(a, b);
    return MIN(a, b);
}

/* The tightest quota on the way from `folder` up to `top`: a limit binds all groups below it. */
static double
quota_upwards(const char *root, const char *top, const char *folder,
              double (*quota)(const char *, const char *))
{
    g_autofree char *path = g_build_filename(top, folder, NULL);
    double least = 0;

    while (strlen(path) >= strlen(top)) {
        char *slash;
        least = smaller_quota(least, quota(root, path));
        slash = strrchr(path, '/');
        if (slash == NULL)
            break;
        *slash = '\0';
    }
    return least;
}

static bool
names_controller(const char *list, const char *name)
{
    g_auto(GStrv) names = g_strsplit(list, ",", -1);

    return g_strv_contains((const char *const *) names, name);
}

/* Lines of /proc/self/cgroup: "0::/path" for version 2, "4:cpu,cpuacct:/path" for version 1. */
static double
cgroup_quota(const char *root)
{
    g_autofree char *text = read_text(root, "proc/self", "cgroup");
    g_auto(GStrv) lines = g_strsplit(text != NULL ? text : "", "\n", -1);
    double least = 0;

    for (char **line = lines; *line != NULL; line++) {
        g_auto(GStrv) fields = g_strsplit(*line, ":", 3);
        if (g_strv_length(fields) != 3)
            continue;
        if (fields[1][0] == '\0') {
            least =
                smaller_quota(least, quota_upwards(root, "/sys/fs/cgroup", fields[2], quota_v2));
        } else if (names_controller(fields[1], "cpu")) {
            g_autofree char *top = g_build_filename("/sys/fs/cgroup", fields[1], NULL);
            least = smaller_quota(least, quota_upwards(root, top, fields[2], quota_v1));
            least = smaller_quota(least,
                                  quota_upwards(root, "/sys/fs/cgroup/cpu", fields[2], quota_v1));
        }
    }
    return least;
}

/* ---- processors ----------------------------------------------------------------------------- */

/* The processors of the most powerful kind, or all where kinds are not known. */
static hwloc_bitmap_t
performance_cpus(hwloc_topology_t topology, hwloc_const_bitmap_t usable)
{
    hwloc_bitmap_t set = hwloc_bitmap_dup(usable);
    int n_kinds = hwloc_cpukinds_get_nr(topology, 0);

    for (int i = n_kinds - 1; i >= 0; i--) {
        int efficiency = -1;
        if (hwloc_cpukinds_get_info(topology, (unsigned) i, set, &efficiency, NULL, NULL, 0) < 0 ||
            efficiency < 0)
            break;
        hwloc_bitmap_and(set, set, usable);
        if (!hwloc_bitmap_iszero(set))
            return set;
    }
    hwloc_bitmap_copy(set, usable);
    return set;
}

/* Appends the n-th processing unit of every core that has so many in `set` and not in `taken`. */
static void
append_cpus(SluiceCpuPlacement *placement, hwloc_topology_t topology, hwloc_const_bitmap_t set,
            hwloc_bitmap_t taken, bool first_only)
{
    hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    hwloc_bitmap_t left = hwloc_bitmap_alloc();

    for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_type(topology, type, core));) {
        hwloc_bitmap_and(left, core->cpuset, set);
        if (first_only && hwloc_bitmap_intersects(core->cpuset, taken))
            continue;
        hwloc_bitmap_andnot(left, left, taken);
        for (int cpu = hwloc_bitmap_first(left); cpu >= 0; cpu = hwloc_bitmap_next(left, cpu)) {
            placement->cpus[placement->n_cpus++] = (unsigned) cpu;
            hwloc_bitmap_set(taken, (unsigned) cpu);
            if (first_only)
                break;
        }
    }
    hwloc_bitmap_free(left);
}

/**
 * sluice_cpu_placement_init:
 * @placement: to fill
 * @topology: a loaded topology
 * @allowed: (nullable): the processors this process may use, or %NULL for all of @topology
 * @root: the folder that stands for "/" when the control group is looked up
 *
 * Orders the allowed processors: first hardware threads of performance cores, of other cores, then
 * second hardware threads. The default number of threads is that of the performance cores, or the
 * quota rounded down where that is less: a team that outruns its quota is stopped as a whole.
 *
 * Since: 0.1
 */
void
sluice_cpu_placement_init(SluiceCpuPlacement *placement, hwloc_topology_t topology,
                          hwloc_const_bitmap_t allowed, const char *root)
{
    hwloc_bitmap_t usable = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology));
    hwloc_bitmap_t taken = hwloc_bitmap_alloc();
    hwloc_bitmap_t fast;

    if (allowed != NULL && hwloc_bitmap_intersects(usable, allowed))
        hwloc_bitmap_and(usable, usable, allowed);
    fast = performance_cpus(topology, usable);
    memset(placement, 0, sizeof *placement);
    placement->cpus = g_new0(unsigned, MAX(1, hwloc_bitmap_weight(usable)));
    append_cpus(placement, topology, fast, taken, true);
    placement->n_cores = placement->n_cpus;
    append_cpus(placement, topology, usable, taken, true);
    append_cpus(placement, topology, usable, taken, false);
    placement->quota = cgroup_quota(root);
    placement->n_default = MAX(1, placement->n_cores);
    if (placement->quota > 0)
        placement->n_default = CLAMP((int) placement->quota, 1, placement->n_default);
    hwloc_bitmap_free(fast);
    hwloc_bitmap_free(taken);
    hwloc_bitmap_free(usable);
}

/* Of processors alone: caches, buses and devices take longer to look up, and place no thread. */
static hwloc_topology_t
load_topology(void)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) < 0)
        return NULL;
    hwloc_topology_set_icache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(topology, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (hwloc_topology_load(topology) == 0)
        return topology;
    hwloc_topology_destroy(topology);
    return NULL;
}

/* (transfer none): loaded once, since counting memory, checking it and starting the team all ask.
 * What is read from it afterwards changes nothing in it, so that threads may share it. */
static hwloc_topology_t
host_topology(void)
{
    static hwloc_topology_t topology;
    static gsize is_done = 0;

    if (g_once_init_enter(&is_done)) {
        topology = load_topology();
        g_once_init_leave(&is_done, 1);
    }
    return topology;
}

/**
 * sluice_cpu_placement_init_host:
 * @placement: to fill
 * @error: return location, or %NULL
 *
 * The same for this process on this machine.
 *
 * Returns: %FALSE with %SLUICE_ERROR_DEVICE if the topology cannot be read
 * Since: 0.1
 */
gboolean
sluice_cpu_placement_init_host(SluiceCpuPlacement *placement, GError **error)
{
    hwloc_topology_t topology = host_topology();
    hwloc_bitmap_t bound;

    if (topology == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_DEVICE,
                    "the processors of this machine cannot be listed");
        return FALSE;
    }
    bound = hwloc_bitmap_alloc();
    if (hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_THREAD) < 0)
        hwloc_bitmap_copy(bound, hwloc_topology_get_allowed_cpuset(topology));
    sluice_cpu_placement_init(placement, topology, bound, "/");
    hwloc_bitmap_free(bound);
    return TRUE;
}

/**
 * sluice_cpu_placement_clear:
 * @placement: a placement that was filled
 *
 * Since: 0.1
 */
void
sluice_cpu_placement_clear(SluiceCpuPlacement *placement)
{
    g_clear_pointer(&placement->cpus, g_free);
}
