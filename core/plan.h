/* SPDX-License-Identifier: Apache-2.0 */
/* Plans, the routing that makes them and the cache that shares them. */
#ifndef KILN_CORE_PLAN_H
#define KILN_CORE_PLAN_H

#include "core/device.h"
#include "core/ops/operator.h"

enum { KILN_PLAN_WORKSPACES = 4, KILN_MAX_DESCRIPTOR = 1024 };

/* A plan as a record of calls has it: see record.h. */
typedef struct kiln_recorded_plan kiln_recorded_plan;

struct kiln_plan {
    /* What every run reads comes first. */
    kiln_runtime *runtime;
    uint64_t generation;          /* process that made it */
    const kiln_operator *known;   /* NULL: a vendor's own operator */
    bool direct;                  /* on host memory, not staged */
    kiln_recorded_plan *recorded; /* what counts its runs; NULL = nothing does */
    void *native;                 /* the backend's plan */
    kiln_place running;
    _Alignas(8) unsigned char prepared[KILN_OPERATOR_PREPARED];
    kiln_operator_table table; /* of the backend */

    _Atomic int64_t references;
    const kiln_operator_table *raw; /* as the plugin gave it */
    kiln_instance *instance;
    kiln_device *device; /* where the backend runs */
    kiln_device *home;   /* where the tensors live: differs when staged */
    bool staged, fallback;
    uint64_t outputs; /* tensor slots that a run writes */
    kiln_answer answer;
    char operator_name[64];
    char reason[384];
    _Atomic(void *) workspaces[KILN_PLAN_WORKSPACES]; /* idle, see workspace.h */
    size_t descriptor_size;
    _Alignas(8) unsigned char descriptor[KILN_MAX_DESCRIPTOR]; /* canonical */
};

/* One backend considered for a plan. */
typedef struct kiln_choice {
    kiln_instance *instance;
    kiln_device *device;
    bool staged, denied;
    bool preferred; /* to those behind it, by the profile or the caller */
    kiln_answer answer;
    const kiln_operator_table *raw;
    char backend[32];
    char reason[256];
} kiln_choice;

enum { KILN_MAX_CHOICES = 32 };

/* What is asked for, checked: the canonical descriptor and the options with their defaults. */
typedef struct kiln_request {
    kiln_runtime *runtime;
    char operator_name[64];
    const kiln_operator *known;
    kiln_plan_options options;
    kiln_device *device;
    bool staging;
    size_t descriptor_size;
    _Alignas(8) unsigned char descriptor[KILN_MAX_DESCRIPTOR];
} kiln_request;

kiln_status kiln_request_make(kiln_runtime *runtime, const char *operator_name,
                              const kiln_op_head *descriptor, const kiln_plan_options *options,
                              kiln_request *request);

/* Asks the backends in the order of the profile. Every one of them is in `choices`, with support NO
 * and a reason where it declines. Returns how many. */
int64_t kiln_route(const kiln_request *request, kiln_choice *choices);

/* Prepares the first choice that accepts. */
kiln_status kiln_plan_build(const kiln_request *request, kiln_plan **plan);

/* ---- The cache ---- */

kiln_status kiln_plan_cache_create(int64_t entries, kiln_plan_cache **cache);
void kiln_plan_cache_destroy(kiln_plan_cache *cache);

/* Forgets all plans; those that somebody holds live on. */
void kiln_plan_cache_clear(kiln_plan_cache *cache);

/* What distinguishes plans: operator, descriptor, and those options that change the outcome. */
typedef struct kiln_plan_key {
    const char *operator_name;
    const kiln_op_head *descriptor;
    const kiln_plan_options *options; /* NULL = defaults */
    kiln_device *device;
} kiln_plan_key;

typedef struct kiln_cached_plan kiln_cached_plan;

/* Finds or makes the plan of a key. The result is pinned by *pin until kiln_plan_unpin(). A plan
 * that cannot be cached has pin NULL and belongs to the caller. */
kiln_status kiln_plan_find(kiln_runtime *runtime, const kiln_plan_key *key, kiln_plan **plan,
                           kiln_cached_plan **pin);
void kiln_plan_unpin(kiln_plan_cache *cache, kiln_cached_plan *pin);

#endif
