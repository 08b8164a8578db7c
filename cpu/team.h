/* SPDX-License-Identifier: MIT */
/*
 * The worker threads of the CPU executor: where they run, how they are launched, and the barrier
 * between two phases of a step. The thread that calls run is member 0.
 */
#pragma once

#include <glib.h>
#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

G_BEGIN_DECLS

/* Which processing units threads go to, best first. */
typedef struct {
    unsigned *cpus; /* operating system indices */
    int n_cpus;     /* all that this process may use, second hardware threads last */
    int n_default;  /* one per physical performance core, at most the quota; at least 1 */
    int n_cores;    /* physical performance cores that we may use */
    double quota;   /* processors' worth of time that the cgroup grants; 0: no limit */
} SluiceCpuPlacement;

void sluice_cpu_placement_init(SluiceCpuPlacement *placement, hwloc_topology_t topology,
                               hwloc_const_bitmap_t allowed, const char *root);
gboolean sluice_cpu_placement_init_host(SluiceCpuPlacement *placement, GError **error);
void sluice_cpu_placement_clear(SluiceCpuPlacement *placement);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SluiceCpuPlacement, sluice_cpu_placement_clear)

typedef struct SluiceCpuTeam SluiceCpuTeam;
typedef void (*SluiceCpuTeamFn)(void *data, int member, int n_members);

/* Members of one team at most. */
#define SLUICE_CPU_TEAM_MAX 1023

SluiceCpuTeam *sluice_cpu_team_new(const SluiceCpuPlacement *placement, int n_threads,
                                   gboolean pin_threads, GError **error);
void sluice_cpu_team_free(SluiceCpuTeam *team);
int sluice_cpu_team_n_threads(const SluiceCpuTeam *team);
void sluice_cpu_team_run(SluiceCpuTeam *team, int n_members, SluiceCpuTeamFn fn, void *data);
bool sluice_cpu_team_arrive(SluiceCpuTeam *team);
void sluice_cpu_team_release(SluiceCpuTeam *team);
void sluice_cpu_team_pause(unsigned *n_pauses);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(SluiceCpuTeam, sluice_cpu_team_free)

G_END_DECLS
