/* SPDX-License-Identifier: Apache-2.0 */
/* From the tensor GROUPS to places of tiles: which rows of D, and which steps of k, belong to each
 * group. What is read there may be anything, and is clamped. */
#include "plugins/ref/gemm.h"

/* ---- Memory ---- */

int64_t ref_gemm_groups_bytes(const kiln_gemm_desc *desc)
{
    int64_t bytes, lists = 0;
    if (desc->grouping == KILN_GROUPING_NONE)
        return 0;
    int64_t each = sizeof(int64_t) + sizeof(int32_t); /* a row in `list`, and its group */
    if (desc->grouping == KILN_GROUPING_CONTIGUOUS && __builtin_mul_overflow(desc->m, each, &lists))
        return -1;
    if (__builtin_mul_overflow(desc->groups, 2 * (int64_t)sizeof(int64_t), &bytes) ||
        __builtin_add_overflow(bytes, 2 * (int64_t)sizeof(int64_t) + 63, &bytes) ||
        __builtin_add_overflow(bytes, lists, &bytes))
        return -1;
    return bytes / 64 * 64;
}

/* ---- Reading ---- */

static void violate(ref_gemm_groups *groups, int64_t at, int64_t value)
{
    if (groups->violations++ == 0) {
        groups->at = at;
        groups->value = value;
    }
}

static int32_t read_i32(const kiln_tensor *tensor, const char *data, int64_t index)
{
    int32_t value;
    memcpy(&value, data + index * tensor->strides[tensor->rank - 1] * (int64_t)sizeof value,
           sizeof value);
    return value;
}

static int64_t row_tiles(const ref_gemm_groups *groups, int64_t rows)
{
    return ref_divide_up(rows, groups->tile_rows);
}

/* Sorts the rows by group. Each index is read once, so that it cannot change in between. */
static void read_contiguous(ref_gemm_groups *groups, const kiln_tensor *tensor, const char *data)
{
    int32_t *group_of = (int32_t *)(groups->list + groups->rows);
    int64_t *end = groups->begin + 1; /* first the sizes, then where each group ends so far */
    memset(groups->begin, 0, (size_t)(groups->count + 1) * sizeof *groups->begin);
    for (int64_t row = 0; row < groups->rows; row++) {
        int32_t group = read_i32(tensor, data, row);
        if (group < -1 || group >= groups->count) {
            violate(groups, row, group);
            group = -1;
        }
        group_of[row] = group;
        if (group >= 0)
            end[group]++;
    }
    int64_t before = 0;
    groups->first_tile[0] = 0;
    for (int64_t group = 0; group < groups->count; group++) {
        int64_t size = end[group];
        groups->first_tile[group + 1] = groups->first_tile[group] + row_tiles(groups, size);
        end[group] = before;
        before += size;
    }
    for (int64_t row = 0; row < groups->rows; row++)
        if (group_of[row] >= 0)
            groups->list[end[group_of[row]]++] = row;
}

static void read_masked(ref_gemm_groups *groups, const kiln_tensor *tensor, const char *data)
{
    groups->first_tile[0] = 0;
    for (int64_t group = 0; group < groups->count; group++) {
        int64_t rows = read_i32(tensor, data, group);
        if (rows < 0 || rows > groups->rows) {
            violate(groups, group, rows);
            rows = rows < 0 ? 0 : groups->rows;
        }
        groups->begin[group] = rows;
        groups->first_tile[group + 1] = groups->first_tile[group] + row_tiles(groups, rows);
    }
}

static void read_ends(ref_gemm_groups *groups, const kiln_tensor *tensor, const char *data)
{
    groups->begin[0] = 0;
    for (int64_t group = 0; group < groups->count; group++) {
        int64_t end = read_i32(tensor, data, group), least = groups->begin[group];
        if (end < least || end > groups->depth) {
            violate(groups, group, end);
            end = end < least ? least : groups->depth;
        }
        groups->begin[group + 1] = end;
    }
}

void ref_gemm_groups_read(ref_gemm_groups *groups, const kiln_tensor *tensor, const char *data,
                          char *workspace)
{
    groups->violations = 0;
    groups->first_tile = NULL;
    if (groups->grouping == KILN_GROUPING_NONE)
        return;
    groups->begin = (int64_t *)(void *)workspace;
    if (groups->grouping == KILN_GROUPING_K) {
        read_ends(groups, tensor, data);
        return;
    }
    groups->first_tile = groups->begin + groups->count + 1;
    groups->list = groups->first_tile + groups->count + 1;
    if (groups->grouping == KILN_GROUPING_MASKED)
        read_masked(groups, tensor, data);
    else
        read_contiguous(groups, tensor, data);
}

/* ---- Places ---- */

int64_t ref_gemm_groups_first(const ref_gemm_groups *groups, int64_t entry)
{
    return groups->first_tile ? groups->first_tile[entry] : entry * row_tiles(groups, groups->rows);
}

/* The entry that a row tile belongs to: the last that begins at or before it. */
static int64_t entry_of(const ref_gemm_groups *groups, int64_t tile)
{
    int64_t low = 0, high = groups->count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (ref_gemm_groups_first(groups, middle) <= tile)
            low = middle;
        else
            high = middle;
    }
    return low;
}

ref_gemm_place ref_gemm_groups_place(const ref_gemm_groups *groups, int64_t tile)
{
    ref_gemm_place place = {.entry = entry_of(groups, tile), .k_end = groups->depth};
    ref_rows rows = {.count = groups->rows};
    int64_t entry = place.entry;
    if (groups->grouping == KILN_GROUPING_CONTIGUOUS) {
        rows.list = groups->list + groups->begin[entry];
        rows.count = groups->begin[entry + 1] - groups->begin[entry];
    } else if (groups->grouping == KILN_GROUPING_MASKED) {
        rows.count = groups->begin[entry];
    } else if (groups->grouping == KILN_GROUPING_K) {
        place.k = groups->begin[entry];
        place.k_end = groups->begin[entry + 1];
    }
    int64_t first = (tile - ref_gemm_groups_first(groups, entry)) * groups->tile_rows;
    place.rows = ref_rows_from(&rows, first, groups->tile_rows);
    return place;
}

/* ---- What was clamped ---- */

kiln_status ref_gemm_groups_status(const ref_gemm_groups *groups, const kiln_host *host)
{
    long long at = groups->at, value = groups->value, more = groups->violations - 1;
    char others[48] = "";
    if (groups->violations == 0)
        return KILN_OK;
    if (more > 0)
        snprintf(others, sizeof others, " (and %lld more like it)", more);
    if (groups->grouping == KILN_GROUPING_CONTIGUOUS)
        return host->set_error(KILN_CAPACITY,
                               "gemm: row %lld is of group %lld, but there are %lld groups, and -1 "
                               "for padding; it was taken as padding%s",
                               at, value, (long long)groups->count, others);
    if (groups->grouping == KILN_GROUPING_MASKED)
        return host->set_error(KILN_CAPACITY,
                               "gemm: group %lld counts %lld rows, but has room for 0 to %lld; the "
                               "count was clamped%s",
                               at, value, (long long)groups->rows, others);
    return host->set_error(KILN_CAPACITY,
                           "gemm: group %lld ends at step %lld; ends must not decrease and lie in "
                           "0 to k = %lld; it was clamped%s",
                           at, value, (long long)groups->depth, others);
}
