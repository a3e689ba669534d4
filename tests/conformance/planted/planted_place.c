/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows and steps of k belong together: batches and groups. What can be wrong with that. */
#include "planted_gemm.h"

static int64_t group_at(const planted_product *self, int64_t index)
{
    int32_t value;
    memcpy(&value, self->addresses[KILN_GEMM_GROUPS] + index * (int64_t)sizeof value, sizeof value);
    return value;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* ---- By k ---- */

/* Where the steps of a group end: no sooner than those of the groups before it. */
static int64_t end_of_group(const planted_product *self, int64_t group)
{
    int64_t end = 0;
    if (planted(ENDS_DECREASE) && group >= 0)
        return clamp(group_at(self, group), 0, self->k);
    for (int64_t g = 0; g <= group; g++)
        end = clamp(group_at(self, g), end, self->k);
    return end;
}

static bool ends_exceed(const planted_product *self)
{
    for (int64_t g = 0; g < self->desc->groups; g++)
        if (group_at(self, g) != end_of_group(self, g))
            return true;
    return false;
}

/* ---- By rows ---- */

static int64_t group_of_row(const planted_product *self, int64_t row)
{
    if (planted(WRONG_GROUP)) /* as if groups began at multiples of 4 rows */
        row -= row % 4;
    int64_t group = group_at(self, row);
    return group >= 0 && group < self->desc->groups ? group : -1;
}

static bool indices_exceed(const planted_product *self)
{
    for (int64_t i = 0; i < self->m; i++)
        if (group_at(self, i) < -1 || group_at(self, i) >= self->desc->groups)
            return true;
    return false;
}

static int64_t rows_of_group(const planted_product *self, int64_t group)
{
    int64_t count = group_at(self, group);
    if (planted(COUNT_NOT_CLAMPED) && count > self->m)
        return 0;
    return clamp(count, 0, self->m);
}

static bool counts_exceed(const planted_product *self)
{
    for (int64_t g = 0; g < self->desc->groups; g++)
        if (group_at(self, g) < 0 || group_at(self, g) > self->m)
            return true;
    return false;
}

/* ---- All of them ---- */

bool planted_place_of(const planted_product *self, int64_t line, planted_place *place)
{
    int64_t matrix = line / self->m, row = line % self->m;
    *place = (planted_place){
        .row = row, .group = matrix, .a = matrix, .b = matrix, .d = matrix, .end_of_k = self->k};
    switch (self->desc->grouping) {
    case KILN_GROUPING_CONTIGUOUS:
        place->group = place->b = group_of_row(self, row);
        return place->group >= 0;
    case KILN_GROUPING_MASKED:
        return row < rows_of_group(self, matrix);
    case KILN_GROUPING_K:
        place->a = place->b = 0;
        place->k = end_of_group(self, matrix - 1);
        place->end_of_k = end_of_group(self, matrix);
        return true;
    default:
        return true;
    }
}

bool planted_groups_exceed(const planted_product *self)
{
    if (planted(CAPACITY_SILENT))
        return false;
    switch (self->desc->grouping) {
    case KILN_GROUPING_CONTIGUOUS:
        return indices_exceed(self);
    case KILN_GROUPING_MASKED:
        return counts_exceed(self);
    case KILN_GROUPING_K:
        return ends_exceed(self);
    default:
        return false;
    }
}
