# The task pool. One state serves a process: words of 64 bits, written by the caller and by the workers with sequential consistency.
#
#   0 ticket     generation << 32 | number of the next task; the generation is odd while a stage is being published
#   8 done       tasks of the stage that have ended
#  16 sleepers   workers that wait (or are about to) for the generation to change
#  24 stop       not zero: workers end
#  32 stage      address of the current stage
#  33 tasks      its number of tasks
#  34 context    address of the words that task functions read
#  40 busy       not zero while a call runs; a second one then runs by itself on its own thread
#  48 workers    number of workers that were started
#  49 live       number of those that have not ended
#  64 …          one thread identifier for each worker
#
# A plan is: stages, whether sleeping workers are woken at once (otherwise when the stage has taken longer than waking them does), then for each
# stage: groups, tasks, and for each group: address of the task function, instances, instances of a task, number of its first task. Task
# functions are called with (context, first instance, end).

comptime TaskFn = def(Int, Int, Int) thin abi("C") -> None
comptime P64 = Pointer[Int64, MutAnyOrigin]
comptime SPIN = 3000
comptime LATE = Int64(15000)  # clocks
comptime WORKERS = 1024
comptime LOW = Int64(0xFFFFFFFF)


@always_inline
def kt_get(p: P64, i: Int) -> Int64:
    return Atomic[Int64].load(p.unsafe_offset(i))


@always_inline
def kt_set(p: P64, i: Int, v: Int64):
    Atomic[Int64].store(p.unsafe_offset(i), v)


@always_inline
def kt_pause():
    comptime if CompilationTarget.is_x86():
        llvm_intrinsic["llvm.x86.sse2.pause", NoneType]()


@always_inline
def kt_clock() -> Int64:
    return llvm_intrinsic["llvm.readcyclecounter", Int64]()


@always_inline
def kt_futex(st: P64, operation: Int, value: Int):
    # on the upper half of the ticket, the generation
    comptime if CompilationTarget.is_x86():
        _ = external_call["syscall", Int](Int(202), Int(st) + 4, operation, value, Int(0), Int(0), Int(0))
    else:
        _ = external_call["syscall", Int](Int(98), Int(st) + 4, operation, value, Int(0), Int(0), Int(0))


# Control of floating-point arithmetic: read, and set to rounding to nearest even without flushing of subnormal numbers.
@always_inline
def kt_float_state() -> Int32:
    comptime if CompilationTarget.is_x86():
        var v = Int32(0)
        llvm_intrinsic["llvm.x86.sse.stmxcsr", NoneType](Pointer(to=v))
        return v
    else:
        return external_call["fegetround", Int32]()


@always_inline
def kt_set_float_state(state: Int32):
    comptime if CompilationTarget.is_x86():
        var v = state
        llvm_intrinsic["llvm.x86.sse.ldmxcsr", NoneType](Pointer(to=v))
    else:
        _ = external_call["fesetround", Int32](state)


@always_inline
def kt_strict_float():
    comptime if CompilationTarget.is_x86():
        kt_set_float_state(0x1F80)
    else:
        kt_set_float_state(0)


@always_inline
def kt_call(address: Int64, context: Int64, lo: Int, hi: Int):
    var a = address
    Pointer(to=a).unsafe_bitcast[TaskFn]()[](Int(context), lo, hi)


@always_inline
def kt_task(stage: P64, context: Int64, number: Int64):
    var groups = Int(stage[unsafe_offset=0])
    var g = 0
    while g + 1 < groups and stage[unsafe_offset=2 + 4 * (g + 1) + 3] <= number:
        g += 1
    var r = stage.unsafe_offset(2 + 4 * g)
    var grain = r[unsafe_offset=2]
    var lo = (number - r[unsafe_offset=3]) * grain
    var end = r[unsafe_offset=1]
    var hi = lo + grain
    if end < hi:
        hi = end
    kt_call(r[unsafe_offset=0], context, Int(lo), Int(hi))


# Take one task and run it; False where none is left. What is read before the exchange belongs to the generation that the exchange confirms.
@always_inline
def kt_step(st: P64) -> Bool:
    var t = kt_get(st, 0)
    var number = t & LOW
    if (t >> 32) & 1 != 0 or number >= kt_get(st, 33):
        return False
    var stage = kt_get(st, 32)
    var context = kt_get(st, 34)
    var seen = t
    if st.unsafe_bitcast[Atomic[Int64]]()[].compare_exchange(seen, t + 1):
        kt_task(P64(unsafe_from_address=Int(stage)), context, number)
        _ = Atomic[Int64].fetch_add(st.unsafe_offset(8), 1)
    return True


def kt_worker(state: Int) abi("C") -> Int:
    var st = P64(unsafe_from_address=state)
    kt_strict_float()
    var spins = 0
    while kt_get(st, 24) == 0:
        if kt_step(st):
            spins = 0
            continue
        kt_pause()
        spins += 1
        if spins > SPIN:
            spins = 0
            var t = kt_get(st, 0)
            _ = Atomic[Int64].fetch_add(st.unsafe_offset(16), 1)
            var now = kt_get(st, 0)
            if (now >> 32) == (t >> 32) and ((now >> 32) & 1 != 0 or (now & LOW) >= kt_get(st, 33)) and kt_get(st, 24) == 0:
                kt_futex(st, 128, Int(now >> 32))
            _ = Atomic[Int64].fetch_add(st.unsafe_offset(16), -1)
    _ = Atomic[Int64].fetch_add(st.unsafe_offset(49), -1)
    return 0


# Start workers; the result is how many run. Signals stay with the threads of the caller.
@export
def kt_start(state: Int, workers: Int) abi("C") -> Int:
    var st = P64(unsafe_from_address=state)
    var full = SIMD[DType.uint64, 16](0xFFFFFFFFFFFFFFFF)
    var before = SIMD[DType.uint64, 16](0)
    _ = external_call["pthread_sigmask", Int32](Int32(2), Pointer(to=full), Pointer(to=before))
    var count = 0
    for k in range(min(workers, WORKERS)):
        _ = Atomic[Int64].fetch_add(st.unsafe_offset(49), 1)
        var rc = external_call["pthread_create", Int32](st.unsafe_offset(64 + k), Int(0), kt_worker, state)
        if rc != 0:
            _ = Atomic[Int64].fetch_add(st.unsafe_offset(49), -1)
            break
        count += 1
    _ = external_call["pthread_sigmask", Int32](Int32(2), Pointer(to=before), Pointer(to=full))
    kt_set(st, 48, Int64(count))
    return count


# End and join the workers. A call that is running goes on by itself.
@export
def kt_stop(state: Int) abi("C"):
    var st = P64(unsafe_from_address=state)
    kt_set(st, 24, 1)
    while kt_get(st, 49) != 0:
        kt_futex(st, 129, 1 << 30)
        _ = external_call["sched_yield", Int32]()
    for k in range(Int(kt_get(st, 48))):
        _ = external_call["pthread_join", Int32](st[unsafe_offset=64 + k], Int(0))
    kt_set(st, 48, 0)


@always_inline
def kt_alone(stage: P64, context: Int64):
    for g in range(Int(stage[unsafe_offset=0])):
        var r = stage.unsafe_offset(2 + 4 * g)
        kt_call(r[unsafe_offset=0], context, 0, Int(r[unsafe_offset=1]))


@always_inline
def kt_together(st: P64, stage: P64, context: Int64, eager: Bool):
    var tasks = stage[unsafe_offset=1]
    var generation = ((kt_get(st, 0) >> 32) + 1) & 0x3FFFFFFF
    kt_set(st, 0, generation << 32 | 0x7FFFFFFF)
    kt_set(st, 32, Int64(Int(stage)))
    kt_set(st, 33, tasks)
    kt_set(st, 34, context)
    kt_set(st, 8, 0)
    kt_set(st, 0, (generation + 1) << 32)
    var asleep = kt_get(st, 16) != 0
    if asleep and eager:
        kt_futex(st, 129, 1 << 30)
        asleep = False
    var start = kt_clock()
    while kt_step(st):
        if asleep and kt_clock() - start > LATE:
            kt_futex(st, 129, 1 << 30)
            asleep = False
    var spins = 0
    while kt_get(st, 8) != tasks:
        kt_pause()
        spins += 1
        if spins > SPIN:
            _ = external_call["sched_yield", Int32]()


# Run a plan: its stages in order, each complete before the next.
@export
def kt_run(state: Int, plan: Int, context: Int) abi("C"):
    var st = P64(unsafe_from_address=state)
    var stage = P64(unsafe_from_address=plan)
    var stages = Int(stage[unsafe_offset=0])
    var eager = stage[unsafe_offset=1] != 0
    stage = stage.unsafe_offset(2)
    var before = kt_float_state()
    kt_strict_float()
    var free = Int64(0)
    var mine = kt_get(st, 48) != 0 and st.unsafe_offset(40).unsafe_bitcast[Atomic[Int64]]()[].compare_exchange(free, 1)
    for _ in range(stages):
        if mine and stage[unsafe_offset=1] > 1:
            kt_together(st, stage, Int64(context), eager)
        else:
            kt_alone(stage, Int64(context))
        stage = stage.unsafe_offset(2 + 4 * Int(stage[unsafe_offset=0]))
    if mine:
        kt_set(st, 40, 0)
    kt_set_float_state(before)
