/* SPDX-License-Identifier: MIT */
/*
 * Host residency. Tensors in use are joined to runs in file order; in memory of our own the runs
 * lie one behind the other, so that loading is a few long reads that several threads share, and a
 * file that shrinks or changes meanwhile is a short read and an error, never a fault. Anonymous
 * memory with huge pages is preferred to the mapping: a page fault per 4 KiB in the middle of a
 * token costs more than the copy. Which is used, and why, is said once.
 */
#include "config.h"

#define G_LOG_DOMAIN "Sluice-Offload"

#include "offload/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "src/core/error.h"
#include "src/core/tensor.h"

/* What one pread asks for: long enough to amortise the call, short enough that threads finish
 * together and that progress moves. */
#define CHUNK_BYTES ((size_t) 4 << 20)
/* Tensors closer than this are read in one go, the gap included. */
#define GAP_BYTES 4096
/* Whole cache lines, as the widest loads like them. */
#define ALIGN_BYTES 64
#define HUGE_BYTES ((size_t) 2 << 20)
#define MAX_READERS 8
/* Left free for everybody else: 1/20 of what is there, between these. */
#define RESERVE_MIN ((uint64_t) 128 << 20)
#define RESERVE_MAX ((uint64_t) 2 << 30)

/* Bytes [begin, end) of a file, at `at` in memory. */
typedef struct {
    int file_idx;
    uint64_t begin;
    uint64_t end;
    size_t at;
} Run;

typedef struct {
    SluiceResidency base;
    size_t n_tensors;
    SluiceResidencyTensor *tensors;
    const void **data;         /* [n_tensors]; NULL: not loaded */
    const void *const **slabs; /* [n_tensors]; NULL: not a stack */
    uint8_t *memory;           /* anonymous, or NULL */
    size_t memory_bytes;
} HostResidency;

/* ---- what is available ---------------------------------------------------------------------- */

static bool
read_number(const char *path, uint64_t *value)
{
    g_autofree char *text = NULL;
    char *end = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return false;
    *value = g_ascii_strtoull(text, &end, 10);
    return end != text;
}

/* A field of a file of "name value" lines, as /proc/meminfo and memory.stat are; the unit is the
 * caller's business. */
static bool
read_field(const char *path, const char *name, uint64_t *value)
{
    g_autofree char *text = NULL;
    size_t n_name = strlen(name);

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return false;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n_name) == 0 && (line[n_name] == ' ' || line[n_name] == ':')) {
            *value = g_ascii_strtoull(line + n_name + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

/* Room below one control group's limit; what its page cache holds can be taken back. */
static uint64_t
group_room(const char *folder, const char *limit_file, const char *usage_file,
           const char *cache_field)
{
    g_autofree char *limit_path = g_build_filename(folder, limit_file, NULL);
    g_autofree char *usage_path = g_build_filename(folder, usage_file, NULL);
    g_autofree char *stat_path = g_build_filename(folder, "memory.stat", NULL);
    uint64_t limit = 0, usage = 0, cache = 0;

    if (!read_number(limit_path, &limit) || !read_number(usage_path, &usage))
        return G_MAXUINT64;
    read_field(stat_path, cache_field, &cache);
    usage -= MIN(usage, cache);
    return limit - MIN(limit, usage);
}

/* The least room in the group at `path` below `root` and in all groups above it. */
static uint64_t
hierarchy_room(const char *root, const char *path, bool is_unified)
{
    g_autofree char *folder = g_build_filename(root, path, NULL);
    size_t n_root = strlen(root);
    uint64_t room = G_MAXUINT64;

    for (;;) {
        uint64_t here = is_unified
                            ? group_room(folder, "memory.max", "memory.current", "inactive_file")
                            : group_room(folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                         "total_inactive_file");
        char *slash = strrchr(folder, '/');

        room = MIN(room, here);
        if (strlen(folder) <= n_root || slash == NULL)
            return room;
        *slash = '\0';
    }
}

static uint64_t
control_group_room(void)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;
    uint64_t room = G_MAXUINT64;

    if (!g_file_get_contents("/proc/self/cgroup", &text, NULL, NULL))
        return room;
    lines = g_strsplit(text, "\n", -1);
    for (size_t i = 0; lines[i] != NULL; i++) {
        g_auto(GStrv) fields = g_strsplit(lines[i], ":", 3);

        if (g_strv_length(fields) != 3)
            continue;
        if (strcmp(fields[0], "0") == 0)
            room = MIN(room, hierarchy_room("/sys/fs/cgroup", fields[2], true));
        else if (strcmp(fields[1], "memory") == 0)
            room = MIN(room, hierarchy_room("/sys/fs/cgroup/memory", fields[2], false));
    }
    return room;
}

/**
 * sluice_residency_available_bytes:
 *
 * Memory that can be taken without pushing anybody out: MemAvailable, and the room below the
 * limits of our control groups. A limit on address space (ulimit -v) counts too.
 *
 * Returns: bytes, or 0 where the system does not say
 */
uint64_t
sluice_residency_available_bytes(void)
{
    struct rlimit limit;
    uint64_t available = 0;

    if (!read_field("/proc/meminfo", "MemAvailable", &available))
        return 0;
    available *= 1024;
    available = MIN(available, control_group_room());
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        uint64_t n_pages = 0;
        uint64_t used = read_number("/proc/self/statm", &n_pages)
                            ? n_pages * (uint64_t) sysconf(_SC_PAGESIZE)
                            : 0;

        available = MIN(available, limit.rlim_cur - MIN((uint64_t) limit.rlim_cur, used));
    }
    return available;
}

/* ---- runs ----------------------------------------------------------------------------------- */

static gint
compare_offsets(gconstpointer a, gconstpointer b, gpointer data)
{
    const SluiceResidencyTensor *tensors = data;
    const SluiceResidencyTensor *x = &tensors[*(const size_t *) a];
    const SluiceResidencyTensor *y = &tensors[*(const size_t *) b];

    if (x->file_idx != y->file_idx)
        return x->file_idx < y->file_idx ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* (transfer full): indices of the used tensors in file order. */
static size_t *
sort_tensors(const SluiceResidencySpec *spec, size_t *n)
{
    size_t *order = g_new(size_t, spec->n_tensors + 1);

    *n = 0;
    for (size_t i = 0; i < spec->n_tensors; i++) {
        if (spec->tensors[i].is_used)
            order[(*n)++] = i;
    }
    g_qsort_with_data(order, (gint) *n, sizeof order[0], compare_offsets, (gpointer) spec->tensors);
    return order;
}

/* (transfer full): the runs of SluiceResidencySpec; the memory that they fill in *n_bytes. */
static GArray *
find_runs(const SluiceResidencySpec *spec, size_t *n_bytes)
{
    GArray *runs = g_array_new(FALSE, FALSE, sizeof(Run));
    size_t n = 0;
    g_autofree size_t *order = sort_tensors(spec, &n);
    Run *last = NULL;

    for (size_t i = 0; i < n; i++) {
        const SluiceResidencyTensor *t = &spec->tensors[order[i]];

        if (last != NULL && last->file_idx == t->file_idx && t->offset < last->end + GAP_BYTES) {
            last->end = MAX(last->end, t->offset + t->n_bytes);
        } else {
            Run run = {.file_idx = t->file_idx, .begin = t->offset, .end = t->offset + t->n_bytes};

            g_array_append_val(runs, run);
            last = &g_array_index(runs, Run, runs->len - 1);
        }
    }
    *n_bytes = 0;
    for (guint i = 0; i < runs->len; i++) {
        Run *run = &g_array_index(runs, Run, i);

        run->at = *n_bytes;
        *n_bytes += (run->end - run->begin + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    }
    return runs;
}

/* ---- the plan ------------------------------------------------------------------------------- */

/**
 * sluice_residency_table_bytes:
 * @spec: tensors and wishes
 *
 * Returns: bytes of the address tables
 */
size_t
sluice_residency_table_bytes(const SluiceResidencySpec *spec)
{
    size_t n = spec->n_tensors * (sizeof(SluiceResidencyTensor) + 2 * sizeof(void *));

    for (size_t i = 0; i < spec->n_tensors; i++) {
        if (spec->tensors[i].is_used && spec->tensors[i].n_dims == 3)
            n += (size_t) spec->tensors[i].ne[2] * sizeof(void *);
    }
    return n;
}

/**
 * sluice_residency_plan:
 * @spec: tensors and wishes
 * @plan: (out): where the bytes will go
 * @error: return location, or %NULL
 *
 * Decides between memory and mapping. Allocates and reads nothing.
 *
 * Returns: false with %SLUICE_ERROR_MEMORY if memory was asked for and is not there
 */
gboolean
sluice_residency_plan(const SluiceResidencySpec *spec, SluiceResidencyPlan *plan, GError **error)
{
    size_t n_bytes = 0;
    g_autoptr(GArray) runs = find_runs(spec, &n_bytes);
    uint64_t available = sluice_residency_available_bytes();
    uint64_t reserve = CLAMP(available / 20, RESERVE_MIN, RESERVE_MAX);
    bool fits = available == 0 || (n_bytes <= available && reserve <= available - n_bytes &&
                                   spec->other_bytes <= available - n_bytes - reserve);

    if (spec->mode == SLUICE_RESIDENCY_MEMORY && !fits) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "weights need %.1f MiB and caches %.1f MiB, but only %.1f MiB are available "
                    "(%.1f MiB are left to the system)",
                    (double) n_bytes / 0x1p20, (double) spec->other_bytes / 0x1p20,
                    (double) available / 0x1p20, (double) reserve / 0x1p20);
        return FALSE;
    }
    *plan = (SluiceResidencyPlan){.n_bytes = n_bytes, .n_available = available};
    plan->is_mapped = spec->mode == SLUICE_RESIDENCY_MAP || !fits;
    if (!plan->is_mapped)
        plan->n_bytes = (n_bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
    plan->reason = spec->mode != SLUICE_RESIDENCY_AUTO ? "as asked"
                   : fits                              ? "it fits in available memory"
                                                       : "it does not fit in available memory";
    return TRUE;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* What the readers share. They take chunks in file order from one counter. */
typedef struct {
    const SluiceResidencySpec *spec;
    const GArray *runs;
    uint8_t *memory;
    size_t n_bytes;  /* of all runs, padding left out */
    size_t next;     /* atomic: the next chunk's place in the runs laid end to end */
    size_t n_done;   /* atomic */
    gint has_failed; /* atomic */
    GMutex lock;     /* guards error */
    GError *error;
} Reading;

static void
fail_reading(Reading *r, const SluiceResidencyFile *file, uint64_t offset, int code)
{
    g_mutex_lock(&r->lock);
    if (r->error == NULL && code != 0)
        g_set_error(&r->error, SLUICE_ERROR, SLUICE_ERROR_FILE,
                    "cannot read '%s' at %" G_GUINT64_FORMAT ": %s", file->path, offset,
                    g_strerror(code));
    else if (r->error == NULL)
        g_set_error(&r->error, SLUICE_ERROR, SLUICE_ERROR_FILE,
                    "'%s' has become shorter while it was read: it ends at %" G_GUINT64_FORMAT
                    ", and had %" G_GUINT64_FORMAT " bytes",
                    file->path, offset, file->n_bytes);
    g_mutex_unlock(&r->lock);
    g_atomic_int_set(&r->has_failed, 1);
}

static bool
read_exactly(Reading *r, const SluiceResidencyFile *file, uint64_t offset, uint8_t *to, size_t n)
{
    while (n > 0) {
        ssize_t got = pread(file->fd, to, n, (off_t) offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            fail_reading(r, file, offset, got < 0 ? errno : 0);
            return false;
        }
        to += got;
        offset += (uint64_t) got;
        n -= (size_t) got;
    }
    return true;
}

/* Bytes [begin, end) of the runs laid end to end. */
static bool
read_chunk(Reading *r, size_t begin, size_t end)
{
    size_t at = 0;

    for (guint i = 0; i < r->runs->len && at < end; i++) {
        const Run *run = &g_array_index(r->runs, Run, i);
        size_t n_run = run->end - run->begin;
        size_t from = MAX(begin, at), to = MIN(end, at + n_run);

        if (from < to && !read_exactly(r, &r->spec->files[run->file_idx], run->begin + (from - at),
                                       r->memory + run->at + (from - at), to - from))
            return false;
        at += n_run;
    }
    return true;
}

static void
read_chunks(Reading *r, bool reports)
{
    while (!g_atomic_int_get(&r->has_failed)) {
        size_t begin = __atomic_fetch_add(&r->next, CHUNK_BYTES, __ATOMIC_RELAXED);
        size_t end;

        if (begin >= r->n_bytes)
            return;
        end = begin + MIN(CHUNK_BYTES, r->n_bytes - begin);
        if (!read_chunk(r, begin, end))
            return;
        __atomic_fetch_add(&r->n_done, end - begin, __ATOMIC_RELAXED);
        if (reports && r->spec->progress != NULL)
            r->spec->progress(__atomic_load_n(&r->n_done, __ATOMIC_RELAXED), r->n_bytes,
                              r->spec->progress_data);
    }
}

static gpointer
reader_main(gpointer data)
{
    read_chunks(data, false);
    return NULL;
}

static gboolean
read_all(const SluiceResidencySpec *spec, const GArray *runs, uint8_t *memory, GError **error)
{
    int n_readers = spec->n_threads > 0 ? spec->n_threads : MAX(2, (int) g_get_num_processors());
    GThread *threads[MAX_READERS] = {NULL};
    Reading r = {.spec = spec, .runs = runs, .memory = memory};

    for (guint i = 0; i < runs->len; i++)
        r.n_bytes += g_array_index(runs, Run, i).end - g_array_index(runs, Run, i).begin;
    n_readers = MIN(n_readers, MAX_READERS);
    g_mutex_init(&r.lock);
    /* The caller reads as well, and reports: progress is then always on its thread. A thread that
     * cannot be had leaves more to the others. */
    for (int i = 1; i < n_readers; i++)
        threads[i] = g_thread_try_new("sluice-read", reader_main, &r, NULL);
    read_chunks(&r, true);
    for (int i = 1; i < n_readers; i++) {
        if (threads[i] != NULL)
            g_thread_join(threads[i]);
    }
    g_mutex_clear(&r.lock);
    if (r.error != NULL) {
        g_propagate_error(error, r.error);
        return FALSE;
    }
    if (spec->progress != NULL)
        spec->progress(r.n_bytes, r.n_bytes, spec->progress_data);
    return TRUE;
}

/* ---- the object ----------------------------------------------------------------------------- */

static bool
view_tensor(const SluiceResidency *residency, SluiceWeight weight, SluiceAxis axis, SluicePart part,
            SluiceWeightView *view)
{
    const HostResidency *r = (const HostResidency *) residency;
    const SluiceResidencyTensor *t;
    const SluiceDtypeInfo *info;
    const uint8_t *data;
    int64_t begin = part.begin;
    int64_t n;

    if (weight == 0 || weight > r->n_tensors || r->data[weight - 1] == NULL)
        return false;
    t = &r->tensors[weight - 1];
    info = sluice_dtype_info(t->dtype);
    data = r->data[weight - 1];
    *view = (SluiceWeightView){
        .dtype = t->dtype, .n_cols = t->ne[0], .n_rows = t->ne[1], .n_slabs = t->ne[2]};
    view->row_stride = (size_t) (t->ne[0] / info->block_len) * (size_t) info->block_bytes;
    if (t->n_dims == 1 && axis == SLUICE_AXIS_ROWS)
        axis = SLUICE_AXIS_COLS; /* a vector beside a matrix: one value for each output row */
    n = axis == SLUICE_AXIS_ROWS ? t->ne[1] : axis == SLUICE_AXIS_COLS ? t->ne[0] : t->ne[2];
    if (part.end != 0) {
        g_assert(begin >= 0 && begin < part.end && part.end <= n);
        n = part.end - begin;
    }
    if (axis == SLUICE_AXIS_ROWS) {
        view->n_rows = n;
        data += (size_t) begin * view->row_stride;
    } else if (axis == SLUICE_AXIS_COLS) {
        g_assert(begin % info->block_len == 0);
        view->n_cols = n;
        data += (size_t) (begin / info->block_len) * (size_t) info->block_bytes;
    } else {
        view->n_slabs = n;
    }
    if (r->slabs[weight - 1] == NULL) {
        view->data = data;
    } else {
        /* Rows and columns of a stack are cut out of every slab alike, at the caller's offset. */
        view->slabs = r->slabs[weight - 1] + (axis == SLUICE_AXIS_SLABS ? begin : 0);
        if (view->n_slabs == 1) {
            view->data = view->slabs[0];
            view->slabs = NULL;
        } else if (axis != SLUICE_AXIS_SLABS && part.end != 0) {
            return false;
        }
    }
    return true;
}

/* An address for each tensor, and for each slab of a stack. */
static void
make_tables(HostResidency *r, const SluiceResidencySpec *spec, const GArray *runs)
{
    r->n_tensors = spec->n_tensors;
    r->tensors = g_memdup2(spec->tensors, spec->n_tensors * sizeof spec->tensors[0]);
    r->data = g_new0(const void *, spec->n_tensors + 1);
    r->slabs = g_new0(const void *const *, spec->n_tensors + 1);
    for (size_t i = 0; i < spec->n_tensors; i++) {
        const SluiceResidencyTensor *t = &spec->tensors[i];

        if (!t->is_used)
            continue;
        if (r->memory == NULL)
            r->data[i] = t->mapped;
        for (guint j = 0; r->memory != NULL && j < runs->len; j++) {
            const Run *run = &g_array_index(runs, Run, j);

            if (run->file_idx == t->file_idx && run->begin <= t->offset && t->offset < run->end)
                r->data[i] = r->memory + run->at + (t->offset - run->begin);
        }
        if (t->n_dims == 3) {
            const void **slabs = g_new(const void *, t->ne[2]);
            size_t n_slab = t->n_bytes / (size_t) t->ne[2];

            for (int64_t s = 0; s < t->ne[2]; s++)
                slabs[s] = (const uint8_t *) r->data[i] + (size_t) s * n_slab;
            r->slabs[i] = slabs;
        }
    }
}

static gboolean
take_memory(HostResidency *r, const SluiceResidencySpec *spec, const GArray *runs, size_t n_bytes,
            GError **error)
{
    size_t n_mapped;
    uint8_t *at;
    size_t n_lead;

    /* Room to begin at a huge page's boundary; what lies around it is given back. */
    if (__builtin_add_overflow(n_bytes, 2 * HUGE_BYTES, &n_mapped) ||
        (at = mmap(NULL, n_mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) == MAP_FAILED) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "cannot allocate %zu bytes for the weights", n_bytes);
        return FALSE;
    }
    n_lead = (HUGE_BYTES - (uintptr_t) at % HUGE_BYTES) % HUGE_BYTES;
    r->memory_bytes = (n_bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
    if (n_lead > 0)
        munmap(at, n_lead);
    if (n_mapped > n_lead + r->memory_bytes)
        munmap(at + n_lead + r->memory_bytes, n_mapped - n_lead - r->memory_bytes);
    r->memory = at + n_lead;
    if (madvise(r->memory, r->memory_bytes, MADV_HUGEPAGE) != 0)
        g_info("no huge pages for the weights: %s", g_strerror(errno));
    return read_all(spec, runs, r->memory, error);
}

/* The mapping is read from the start to the end of each run; the pages are asked for beforehand. */
static void
advise_mapping(const SluiceResidencySpec *spec)
{
    size_t n_page = (size_t) sysconf(_SC_PAGESIZE);

    for (size_t i = 0; i < spec->n_tensors; i++) {
        const SluiceResidencyTensor *t = &spec->tensors[i];
        uintptr_t begin = (uintptr_t) t->mapped / n_page * n_page;

        if (t->is_used)
            madvise((void *) begin, (uintptr_t) t->mapped + t->n_bytes - begin, MADV_WILLNEED);
    }
}

static gboolean
lock_memory(HostResidency *r, const SluiceResidencySpec *spec, GError **error)
{
    struct rlimit limit = {0, 0};
    int code = 0;

    if (r->memory != NULL) {
        code = mlock(r->memory, r->memory_bytes) != 0 ? errno : 0;
    } else {
        for (size_t i = 0; i < spec->n_tensors && code == 0; i++) {
            if (spec->tensors[i].is_used &&
                mlock(spec->tensors[i].mapped, spec->tensors[i].n_bytes) != 0)
                code = errno;
        }
    }
    if (code == 0)
        return TRUE;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                "cannot lock the weights in memory: %s (the limit is %" G_GUINT64_FORMAT
                " KiB, see 'ulimit -l')",
                g_strerror(code), (uint64_t) limit.rlim_cur / 1024);
    return FALSE;
}

/**
 * sluice_residency_new:
 * @spec: tensors and wishes; files and mapping must outlive the residency where it is mapped
 * @plan: what sluice_residency_plan() decided
 * @error: return location, or %NULL
 *
 * Puts the bytes where the plan says. Calls the progress function on this thread.
 *
 * Returns: (transfer full): the residency, or %NULL
 */
SluiceResidency *
sluice_residency_new(const SluiceResidencySpec *spec, const SluiceResidencyPlan *plan,
                     GError **error)
{
    HostResidency *r = g_new0(HostResidency, 1);
    size_t n_bytes = 0;
    g_autoptr(GArray) runs = find_runs(spec, &n_bytes);

    r->base.view = view_tensor;
    g_info("%.1f MiB of weights go to %s: %s (%.1f MiB are available)", (double) n_bytes / 0x1p20,
           plan->is_mapped ? "the file's mapping" : "memory", plan->reason,
           (double) plan->n_available / 0x1p20);
    if (plan->is_mapped)
        advise_mapping(spec);
    else if (!take_memory(r, spec, runs, n_bytes, error))
        goto fail;
    if (spec->lock_memory && !lock_memory(r, spec, error))
        goto fail;
    make_tables(r, spec, runs);
    return &r->base;
fail:
    sluice_residency_free(&r->base);
    return NULL;
}

/**
 * sluice_residency_free:
 * @residency: (nullable): what sluice_residency_new() gave
 */
void
sluice_residency_free(SluiceResidency *residency)
{
    HostResidency *r = (HostResidency *) residency;

    if (r == NULL)
        return;
    if (r->memory != NULL)
        munmap(r->memory, r->memory_bytes);
    for (size_t i = 0; r->slabs != NULL && i < r->n_tensors; i++)
        g_free((gpointer) r->slabs[i]);
    g_free(r->slabs);
    g_free(r->data);
    g_free(r->tensors);
    g_free(r);
}
