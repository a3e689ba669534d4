/* SPDX-License-Identifier: Apache-2.0 */
/* Events and gates. */
#include "plugins/npu/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void npu_system_open(struct npu_system *system,
                     void (*report)(void *context, int status, const char *text),
                     const char *(*reason)(void *context), void *context)
{
    system->report = report;
    system->reason = reason;
    system->context = context;
    pthread_mutex_init(&system->lock, NULL);
    pthread_cond_init(&system->changed, NULL);
}

void npu_system_close(struct npu_system *system)
{
    pthread_cond_destroy(&system->changed);
    pthread_mutex_destroy(&system->lock);
}

bool npu_event_reached(const struct npu_event *event, uint64_t number)
{
    if (number <= event->finished)
        return true;
    uint64_t bit = number - event->finished - 2;
    return number > event->finished + 1 && bit < 64 && (event->ahead >> bit & 1);
}

void npu_event_complete(struct npu_event *event, uint64_t number, int status, const char *text)
{
    event->status = status;
    snprintf(event->text, sizeof event->text, "%s", status < 0 && text ? text : "");
    if (number != event->finished + 1) {
        event->ahead |= UINT64_C(1) << (number - event->finished - 2);
        return;
    }
    event->finished++;
    while (event->ahead & 1) {
        event->ahead >>= 1;
        event->finished++;
    }
    event->ahead >>= 1;
}

bool npu_event_unreference(struct npu_event *event)
{
    return --event->references == 0;
}

int npu_event_create(struct npu_system *system, struct npu_event **event, char *error, size_t size)
{
    struct npu_event *made = calloc(1, sizeof *made);
    if (!made) {
        snprintf(error, size, "no host memory for an event");
        return NPU_NO_MEMORY;
    }
    made->system = system;
    made->references = 1;
    *event = made;
    return NPU_OK;
}

int npu_gate_create(struct npu_system *system, struct npu_event **gate, char *error, size_t size)
{
    int status = npu_event_create(system, gate, error, size);
    if (status == NPU_OK) {
        (*gate)->gate = true;
        (*gate)->recorded = 1;
    }
    return status;
}

int npu_gate_complete(struct npu_event *gate, int status, const char *text, char *error,
                      size_t size)
{
    int result = NPU_OK;
    pthread_mutex_lock(&gate->system->lock);
    if (!gate->gate || gate->finished == gate->recorded) {
        snprintf(error, size, "%s",
                 gate->gate ? "the gate has already been completed" : "the event is not a gate");
        result = NPU_INVALID;
    } else {
        npu_event_complete(gate, gate->recorded, status,
                           text ? text : "a gate was completed with a failure");
        pthread_cond_broadcast(&gate->system->changed);
    }
    pthread_mutex_unlock(&gate->system->lock);
    return result;
}

int npu_gate_reset(struct npu_event *gate, char *error, size_t size)
{
    int result = NPU_OK;
    pthread_mutex_lock(&gate->system->lock);
    if (!gate->gate || gate->finished != gate->recorded) {
        snprintf(error, size, "%s",
                 gate->gate ? "the gate has not been completed yet" : "the event is not a gate");
        result = NPU_INVALID;
    } else {
        gate->recorded++;
    }
    pthread_mutex_unlock(&gate->system->lock);
    return result;
}

void npu_event_destroy(struct npu_event *event)
{
    if (!event)
        return;
    pthread_mutex_lock(&event->system->lock);
    bool last = npu_event_unreference(event);
    pthread_mutex_unlock(&event->system->lock);
    if (last)
        free(event);
}

/* The event's state, with the lock held. */
static int state_of(const struct npu_event *event, char *error, size_t size)
{
    if (!npu_event_reached(event, event->recorded)) {
        snprintf(error, size, "the event has not been reached yet");
        return NPU_NOT_READY;
    }
    if (event->status < 0)
        snprintf(error, size, "%s", event->text);
    return event->status < 0 ? event->status : NPU_OK;
}

int npu_event_query(struct npu_event *event, char *error, size_t size)
{
    pthread_mutex_lock(&event->system->lock);
    int status = state_of(event, error, size);
    pthread_mutex_unlock(&event->system->lock);
    return status;
}

int npu_event_wait(struct npu_event *event, char *error, size_t size)
{
    pthread_mutex_lock(&event->system->lock);
    uint64_t number = event->recorded;
    while (!npu_event_reached(event, number))
        pthread_cond_wait(&event->system->changed, &event->system->lock);
    if (event->status < 0)
        snprintf(error, size, "%s", event->text);
    int status = event->status < 0 ? event->status : NPU_OK;
    pthread_mutex_unlock(&event->system->lock);
    return status;
}
