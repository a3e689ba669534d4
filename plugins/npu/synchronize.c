/* SPDX-License-Identifier: Apache-2.0 */
/* Inserting flags. Goes through the program once, keeping for each pipe what it knows to have
 * finished on the others, as execution does. An instruction that conflicts with an earlier one of
 * another pipe, of which its own pipe does not know, gets an edge from it. Edges that another edge
 * to the same instruction implies are dropped; edges to later instructions come too late to imply
 * it, so every edge that is kept is needed. */
#include "plugins/npu/assembler.h"
#include "plugins/npu/order.h"

#include <stdio.h>
#include <stdlib.h>

#define NO_EDGE UINT32_MAX

/* set_flag behind instruction `from`, wait_flag before instruction `to`. */
struct edge {
    uint32_t from;
    uint32_t to;
    struct npu_flag flag;
    uint32_t next; /* with the same `from`; NO_EDGE = last */
};

/* What is known of one instruction of the program that is being rewritten. */
struct node {
    enum npu_pipe pipe;
    uint32_t clock;         /* its place in the pipe's queue, from 1 */
    struct npu_clock known; /* what the pipe knows once it is finished */
    uint32_t first_edge;    /* edges from it */
    uint32_t last_edge;
    bool barrier; /* before it */
};

struct synchronizer {
    const struct npu_instruction *instruction;
    uint32_t count;
    const int64_t *registers;
    struct npu_shadow shadow;
    struct node *nodes;
    uint32_t *queue[NPU_PIPES];
    uint32_t queued[NPU_PIPES];
    struct npu_clock known[NPU_PIPES];
    /* Clock, on the destination, of the instruction that last waited for the flag; 0 = none. */
    uint32_t waited[NPU_PIPES][NPU_PIPES][NPU_FLAGS];
    struct edge *edges; /* at most NPU_PIPES - 1 per instruction */
    uint32_t edge_count;
};

static bool open_synchronizer(struct synchronizer *s, const struct npu_assembler *assembler,
                              const struct npu_config *config, const int64_t *registers)
{
    memset(s, 0, sizeof *s);
    s->instruction = assembler->instruction;
    s->count = assembler->count;
    s->registers = registers;
    size_t count = s->count ? s->count : 1;
    bool whole = npu_shadow_open(&s->shadow, config) == 0;
    s->nodes = calloc(count, sizeof *s->nodes);
    s->edges = calloc(count * (NPU_PIPES - 1), sizeof *s->edges);
    whole = whole && s->nodes && s->edges;
    for (int pipe = 0; pipe < NPU_PIPES; pipe++) {
        s->queue[pipe] = calloc(count, sizeof *s->queue[pipe]);
        whole = whole && s->queue[pipe];
    }
    if (whole)
        npu_shadow_begin_block(&s->shadow);
    return whole;
}

static void close_synchronizer(struct synchronizer *s)
{
    npu_shadow_close(&s->shadow);
    for (int pipe = 0; pipe < NPU_PIPES; pipe++)
        free(s->queue[pipe]);
    free(s->nodes);
    free(s->edges);
}

/* Conflicts in GM are between MTE2, which reads, and MTE3, which writes. */
static void visit_global(const struct synchronizer *s, enum npu_pipe pipe,
                         const struct npu_access *access, struct npu_clock *newest)
{
    enum npu_pipe other = pipe == NPU_MTE2 ? NPU_MTE3 : NPU_MTE2;
    for (uint32_t clock = s->queued[other]; clock > s->known[pipe].of[other]; clock--) {
        struct npu_access there;
        int64_t address;
        uint32_t index = s->queue[other][clock - 1];
        if (npu_global_access(&s->instruction[index], s->registers, &there) &&
            npu_access_overlap(access, &there, &address)) {
            newest->of[other] = clock;
            return;
        }
    }
}

/* The newest conflicting instruction of each other pipe. NULL, or why there is no telling. */
static const char *find_conflicts(struct synchronizer *s, const struct npu_config *config,
                                  uint32_t index, struct npu_clock *newest)
{
    struct npu_access access[NPU_ACCESSES];
    const char *reason = NULL;
    const struct node *node = &s->nodes[index];
    int accesses = npu_accesses(&s->instruction[index], s->registers, access, &reason);
    if (accesses < 0)
        return reason;
    for (int i = 0; i < accesses; i++) {
        int64_t unwritten;
        if (access[i].memory == NPU_GM) {
            visit_global(s, node->pipe, &access[i], newest);
            continue;
        }
        if (npu_access_end(&access[i]) > config->size[access[i].memory])
            return "it goes beyond a local memory";
        if (!npu_shadow_visit(&s->shadow, node->pipe, node->clock, &access[i], newest, &unwritten))
            return "it reads local memory that nothing has written";
    }
    return NULL;
}

/* An event id that may be set behind node `from`: whoever waited for it last is known there. */
static bool find_id(const struct synchronizer *s, const struct node *from, enum npu_pipe to,
                    uint32_t *id)
{
    for (*id = 0; *id < NPU_FLAGS; (*id)++)
        if (s->waited[from->pipe][to][*id] <= from->known.of[to])
            return true;
    return false;
}

/* Finds where to set a flag for what node `clock` of pipe `from` does: there or later. */
static bool place_edge(const struct synchronizer *s, enum npu_pipe from, uint32_t clock,
                       uint32_t to, struct edge *edge)
{
    for (; clock <= s->queued[from]; clock++) {
        uint32_t index = s->queue[from][clock - 1];
        uint32_t id;
        if (find_id(s, &s->nodes[index], s->nodes[to].pipe, &id)) {
            *edge = (struct edge){index, to, {from, s->nodes[to].pipe, id}, NO_EDGE};
            return true;
        }
    }
    return false;
}

static void insert_barrier(struct synchronizer *s, uint32_t index)
{
    struct npu_clock all = {{0}};
    s->nodes[index].barrier = true;
    for (int pipe = 0; pipe < NPU_PIPES; pipe++)
        npu_clock_join(&all, &s->known[pipe]);
    for (int pipe = 0; pipe < NPU_PIPES; pipe++)
        s->known[pipe] = all;
}

static void insert_edge(struct synchronizer *s, const struct edge *edge)
{
    struct node *from = &s->nodes[edge->from];
    const struct node *to = &s->nodes[edge->to];
    uint32_t number = s->edge_count++;
    s->edges[number] = *edge;
    if (from->first_edge == NO_EDGE)
        from->first_edge = number;
    else
        s->edges[from->last_edge].next = number;
    from->last_edge = number;
    s->waited[from->pipe][to->pipe][edge->flag.id] = to->clock;
    npu_clock_join(&s->known[to->pipe], &from->known);
}

/* Orders `index` behind the newest conflicting instructions. */
static void insert_edges(struct synchronizer *s, uint32_t index, const struct npu_clock *newest)
{
    enum npu_pipe pipe = s->nodes[index].pipe;
    struct edge edges[NPU_PIPES];
    bool needed[NPU_PIPES] = {false};
    for (int other = 0; other < NPU_PIPES; other++) {
        needed[other] = newest->of[other] > s->known[pipe].of[other];
        if (needed[other] &&
            !place_edge(s, (enum npu_pipe)other, newest->of[other], index, &edges[other])) {
            insert_barrier(s, index);
            return;
        }
    }
    for (int other = 0; other < NPU_PIPES; other++)
        for (int by = 0; by < NPU_PIPES && needed[other]; by++)
            if (by != other && needed[by] &&
                s->nodes[edges[by].from].known.of[other] >= newest->of[other])
                needed[other] = false;
    for (int other = 0; other < NPU_PIPES; other++)
        if (needed[other])
            insert_edge(s, &edges[other]);
}

static void emit_flag(struct npu_assembler *out, enum npu_opcode opcode,
                      const struct npu_flag *flag)
{
    npu_emit(out, &(struct npu_instruction){.opcode = opcode, .as.flag = *flag});
}

static void emit_all(const struct synchronizer *s, struct npu_assembler *out)
{
    uint32_t incoming = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->nodes[i].barrier)
            npu_emit(out, &(struct npu_instruction){.opcode = NPU_BARRIER});
        for (; incoming < s->edge_count && s->edges[incoming].to == i; incoming++)
            emit_flag(out, NPU_WAIT_FLAG, &s->edges[incoming].flag);
        npu_emit(out, &s->instruction[i]);
        for (uint32_t e = s->nodes[i].first_edge; e != NO_EDGE; e = s->edges[e].next)
            emit_flag(out, NPU_SET_FLAG, &s->edges[e].flag);
    }
}

int npu_synchronize(struct npu_assembler *assembler, const struct npu_config *config,
                    const int64_t *registers, char *error, size_t size)
{
    struct synchronizer s;
    struct npu_assembler out = {0};
    const char *reason = NULL;
    uint32_t index = 0;
    if (assembler->failed || !open_synchronizer(&s, assembler, config, registers)) {
        if (!assembler->failed)
            close_synchronizer(&s);
        snprintf(error, size, "no memory to order a program of %u instructions", assembler->count);
        return -1;
    }
    for (; index < s.count; index++) {
        struct node *node = &s.nodes[index];
        struct npu_clock newest = {{0}};
        node->pipe = npu_instruction_pipe(&s.instruction[index]);
        node->clock = s.queued[node->pipe] + 1;
        node->first_edge = NO_EDGE;
        reason = find_conflicts(&s, config, index, &newest);
        if (reason)
            break;
        insert_edges(&s, index, &newest);
        s.queue[node->pipe][s.queued[node->pipe]++] = index;
        s.known[node->pipe].of[node->pipe] = node->clock;
        node->known = s.known[node->pipe];
    }
    if (!reason)
        emit_all(&s, &out);
    close_synchronizer(&s);
    if (reason || out.failed) {
        if (reason)
            snprintf(error, size, "instruction %u cannot be ordered: %s", index, reason);
        else
            snprintf(error, size, "no memory for the flags of %u instructions", assembler->count);
        npu_assembler_free(&out);
        return -1;
    }
    npu_assembler_free(assembler);
    *assembler = out;
    return 0;
}
