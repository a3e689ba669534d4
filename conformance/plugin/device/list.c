/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the device level. */
#include "conformance/plugin/device/device.h"

enum { LIMIT_S = 30 };

#define CHECK(name, run, what)                                                            \
    {                                                                                     \
        "device." name, CONFORMANCE_LEVEL_DEVICE, what, conformance_device_##run, LIMIT_S \
    }

const conformance_check conformance_device_checks[] = {
    CHECK("count", count_stable, "count gives the same number of devices each time."),
    CHECK("info", info, "info describes each device, always the same, and no other."),
    CHECK("info-size", info_size, "info writes nothing beyond the struct that it was given."),
    CHECK("alloc", alloc,
          "alloc gives memory of every size and offered space, aligned, and 0 bytes too."),
    CHECK("alloc-apart", alloc_apart, "Allocations do not overlap, also after others were freed."),
    CHECK("alloc-refuses", alloc_refuses, "alloc refuses spaces that info does not offer."),
    CHECK("alloc-exhausted", alloc_exhausted,
          "alloc returns NO_MEMORY when memory is exhausted, and what is freed is there again."),
    CHECK("alloc-cycles", alloc_cycles, "Allocating and freeing in turn never exhausts memory."),
    CHECK("copy-bytes", copy_bytes,
          "Bytes of any number, offset and host address are copied in every direction."),
    CHECK("copy-strided", copy_strided,
          "Strided copies of every rank arrive, and what lies in gaps survives."),
    CHECK("copy-broadcast", copy_broadcast, "A source stride of 0 repeats the source."),
    CHECK("copy-within", copy_within, "Copies within one allocation harm nothing around them."),
    CHECK("copy-empty", copy_empty, "A copy with an extent of 0 touches nothing."),
    CHECK("copy-types", copy_types, "Matrices of every element type come back unchanged."),
    CHECK("fill", fill, "Fills with patterns of 1 to 16 bytes."),
    CHECK("fill-strided", fill_strided, "Strided fills, in whose gaps everything survives."),
    CHECK("request-tail", request_tail,
          "Requests that say something beyond what the plugin knows are refused."),
    CHECK("stream-idle", stream_idle, "Streams without work can be waited for and destroyed."),
    CHECK("stream-order", stream_order, "What is queued on a stream is done in order."),
    CHECK("stream-functions", stream_functions,
          "Functions on a stream are called once each, in order, before stream_wait returns."),
    CHECK("stream-requests", stream_requests,
          "A request belongs to the caller again when the call returns."),
    CHECK("stream-destroy", stream_destroy,
          "stream_destroy returns when all that was queued has been done."),
    CHECK("stream-counters", stream_counters,
          "stream_counters gives names and writes no more than there is room for."),
    CHECK("event-unrecorded", event_unrecorded,
          "An event that was never recorded counts as reached."),
    CHECK("event-reached", event_reached,
          "An event is reached when all that was queued ahead of it is done."),
    CHECK("event-between-streams", event_between_streams, "A stream waits for another's event."),
    CHECK("event-again", event_again,
          "A wait means the record that was the last when it was queued."),
    CHECK("event-destroyed", event_destroyed,
          "An event may be destroyed while queued commands name it."),
    CHECK("gate", gate, "A gate holds the streams that wait for it until the host completes it."),
    CHECK("gate-reset", gate_reset, "A completed gate can be armed again."),
    CHECK("fault-sticky", fault_sticky,
          "Every wait for a faulted stream returns the fault, with its sentence."),
    CHECK("fault-skips", fault_skips, "Commands behind a fault are not done."),
    CHECK("fault-functions", fault_functions,
          "Functions behind a fault are called, with its status and its sentence."),
    CHECK("fault-events", fault_events, "Events behind a fault complete with it."),
    CHECK("fault-taken-over", fault_taken_over,
          "A stream that waits for a faulted one takes the fault over."),
    CHECK("fault-contained", fault_contained, "A fault leaves other streams alone."),
    CHECK("fault-destroy", fault_destroy,
          "A faulted stream can be destroyed; functions on it are called first."),
    CHECK("capacity", capacity,
          "KILN_CAPACITY of a function is no fault, and one wait says it, once."),
    CHECK("threads", threads, "Several threads use streams of their own at once."),
    CHECK("two-devices", two, "Two devices do not see each other's memory."),
    CHECK("across", across,
          "Streams of this device and of the host, or another, wait for each other's events."),
    CHECK("fork", fork,
          "A child of fork can open the plugin anew, and the parent goes on as before."),
    CHECK("thread-state", thread_state,
          "Calls leave the thread's rounding, denormals, signal mask and the like as found."),
};
const size_t conformance_device_check_count =
    sizeof conformance_device_checks / sizeof conformance_device_checks[0];
