/* SPDX-License-Identifier: Apache-2.0 */
/* Devices as others see them: a machine with a thread that executes what is queued on streams.
 *
 * The thread takes, in turn, the first command of any stream that can go on; commands of one stream
 * run in order. A fault stays with its stream: what is queued behind it is skipped, and waits
 * return it. But events that would have been recorded are completed with the fault, so that nobody
 * waits for ever, and host functions are called, so that what they own is not lost. All functions
 * may be called from any thread; one thread at a time feeds a stream.
 *
 * Functions that can fail return a status, negative on failure, and then write one sentence to
 * error (size bytes). */
#ifndef NPU_DEVICE_H
#define NPU_DEVICE_H

#include "plugins/npu/machine.h"
#include "plugins/npu/transfer.h"

/* The numbers are those of kiln_status, so that statuses pass through unchanged. */
enum npu_status {
    NPU_OK = 0,
    NPU_INVALID = -1,
    NPU_NO_MEMORY = -3,
    NPU_FAULT = -9,
    NPU_NOT_READY = -11,
    NPU_CAPACITY = -14
};

#define NPU_TEXT        512
#define NPU_QUEUE_DEPTH 128 /* commands per stream; whoever queues more waits */
#define NPU_EXPECT_MAX  128 /* bytes */

/* What devices of one instance share, so that a stream can wait for an event of another device. */
struct npu_system {
    pthread_mutex_t lock;
    pthread_cond_t
        changed; /* a command, an event or a gate was completed, or something was queued */
    /* Called before a host function that gets a fault, on its thread; may be NULL. */
    void (*report)(void *context, int status, const char *text);
    /* Why a host function failed, asked on its thread; may be NULL. */
    const char *(*reason)(void *context);
    void *context;
};

struct npu_device;
struct npu_stream;
struct npu_event;

/* A host function. `status` is NPU_OK or the fault of the stream; a negative result faults it,
   but that NPU_CAPACITY is said by the next wait alone. */
typedef int (*npu_host_function)(void *argument, int status);

void npu_system_open(struct npu_system *system,
                     void (*report)(void *context, int status, const char *text),
                     const char *(*reason)(void *context), void *context);
void npu_system_close(struct npu_system *system);

/* Starts a device and its thread. */
int npu_device_open(struct npu_system *system, const struct npu_config *config,
                    struct npu_device **device, char *error, size_t size);
/* Every stream has been destroyed. */
void npu_device_close(struct npu_device *device);
/* For allocation, and for the configuration. */
struct npu_machine *npu_device_machine(struct npu_device *device);

int npu_stream_create(struct npu_device *device, struct npu_stream **stream, char *error,
                      size_t size);
/* Waits until all is done, then frees. Not from a host function of the same device. A stream that
   waits for a gate is done when someone completes the gate. */
void npu_stream_destroy(struct npu_stream *stream);
/* Waits until what is queued is done; returns the stream's fault, if any, else NPU_CAPACITY, once,
   when a function has returned that. */
int npu_stream_wait(struct npu_stream *stream, char *error, size_t size);
/* What has been counted so far; waits for nothing. */
void npu_stream_counters(struct npu_stream *stream, struct npu_counters *counters);

/* Queueing. Structures are copied; program, host memory and argument must live until it is done.
   Waits while the queue is full. */
int npu_enqueue_launch(struct npu_stream *stream, const struct npu_program *program,
                       const struct npu_launch *launch, char *error, size_t size);
int npu_enqueue_transfer(struct npu_stream *stream, const struct npu_transfer *transfer,
                         char *error, size_t size);
/* Faults the stream with NPU_INVALID and `sentence` unless GM holds `count` given bytes. The bytes
   are copied, the sentence must live until it is done. */
int npu_enqueue_expect(struct npu_stream *stream, int64_t address, const void *bytes, int64_t count,
                       const char *sentence, char *error, size_t size);
int npu_enqueue_host(struct npu_stream *stream, npu_host_function function, void *argument,
                     char *error, size_t size);
int npu_enqueue_record(struct npu_stream *stream, struct npu_event *event, char *error,
                       size_t size);
/* Waits for the recording that is the event's last now; a fault of it becomes the stream's. */
int npu_enqueue_wait(struct npu_stream *stream, struct npu_event *event, char *error, size_t size);

int npu_event_create(struct npu_system *system, struct npu_event **event, char *error, size_t size);
/* A gate is an event that counts as under way until npu_gate_complete. */
int npu_gate_create(struct npu_system *system, struct npu_event **gate, char *error, size_t size);
/* Once. `text` may be NULL; it becomes the fault's text when status is negative. */
int npu_gate_complete(struct npu_event *gate, int status, const char *text, char *error,
                      size_t size);
/* Arms a completed gate again. */
int npu_gate_reset(struct npu_event *gate, char *error, size_t size);
/* Commands that name the event keep it alive. */
void npu_event_destroy(struct npu_event *event);
/* NPU_OK also when it was never recorded; NPU_NOT_READY; or the fault. */
int npu_event_query(struct npu_event *event, char *error, size_t size);
int npu_event_wait(struct npu_event *event, char *error, size_t size);

#endif
