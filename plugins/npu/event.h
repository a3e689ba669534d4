/* SPDX-License-Identifier: Apache-2.0 */
/* Events, as streams and their device's thread see them. Call with the system's lock held. */
#ifndef NPU_EVENT_H
#define NPU_EVENT_H

#include "plugins/npu/device.h"

/* Recordings of an event that may be under way at once, on any streams. */
#define NPU_EVENT_WINDOW 64

struct npu_event {
    struct npu_system *system;
    uint64_t references;
    uint64_t recorded; /* recordings queued so far; they are numbered from 1 */
    uint64_t finished; /* all up to this number are completed */
    uint64_t ahead;    /* bit i: number finished + 2 + i is completed too */
    int status;        /* of the recording that was completed last */
    bool gate;
    char text[NPU_TEXT];
};

bool npu_event_reached(const struct npu_event *event, uint64_t number);
void npu_event_complete(struct npu_event *event, uint64_t number, int status, const char *text);
/* True when the last reference is gone: the caller frees it, without the lock if it likes. */
bool npu_event_unreference(struct npu_event *event);

#endif
