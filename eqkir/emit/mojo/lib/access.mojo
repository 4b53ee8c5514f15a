# Memory accesses of task programs, and lane masks. Offsets are in elements from the place's first element; lanes outside of a mask touch nothing.

@always_inline
def eqk_lanes[W: Int](n: SIMD[DType.int64, 1]) -> SIMD[DType.bool, W]:
    var c = Int32(max(min(Int(n), W), 0))
    var at = SIMD[DType.int32, W]()
    comptime for i in range(W):
        at[i] = Int32(i)
    return at.lt(SIMD[DType.int32, W](c))


@always_inline
def eqk_iota[W: Int]() -> SIMD[DType.int64, W]:
    var at = SIMD[DType.int64, W]()
    comptime for i in range(W):
        at[i] = Int64(i)
    return at


@always_inline
def eqk_load[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, 1]) -> SIMD[D, W]:
    return p.unsafe_load[width=W](Int(at))


@always_inline
def eqk_load_masked[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, 1], mask: SIMD[DType.bool, W], other: SIMD[D, W]) -> SIMD[D, W]:
    comptime if W == 1:
        if mask[0]:
            return p.unsafe_load[width=W](Int(at))
        return other
    else:
        return masked_load[W](p.unsafe_offset(Int(at)), mask, other)


@always_inline
def eqk_gather[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, W]) -> SIMD[D, W]:
    var out = SIMD[D, W]()
    comptime for i in range(W):
        out[i] = p.unsafe_load[width=1](Int(at[i]))
    return out


@always_inline
def eqk_gather_masked[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, W], mask: SIMD[DType.bool, W], other: SIMD[D, W]) -> SIMD[D, W]:
    comptime if W == 1:
        if mask[0]:
            return p.unsafe_load[width=W](Int(at[0]))
        return other
    else:
        var bytes = at * SIMD[DType.int64, W](Int64(size_of[Scalar[D]]())) + SIMD[DType.int64, W](Int64(Int(p)))
        return gather(bytes.cast[DType.int](), mask, other)


@always_inline
def eqk_store[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, 1], value: SIMD[D, W]):
    p.unsafe_store(Int(at), value)


# Store past the caches, in pieces of 16 bytes, to an address that is a multiple of these. `eqk_stream_end` orders such stores before all
# that follows.
@always_inline
def eqk_stream[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, 1], value: SIMD[D, W]):
    comptime n = 16 // size_of[Scalar[D]]()
    comptime if CompilationTarget.is_x86() and W >= n:
        var q = p.unsafe_offset(Int(at))
        comptime for k in range(W // n):
            q.unsafe_store[non_temporal=True, alignment=16](k * n, value.slice[n, offset=k * n]())
    else:
        p.unsafe_store(Int(at), value)


# Runs of streamed stores of 64 bytes (`lines.py`): how many words of 4 bytes lie between the line's beginning and the run's.
@always_inline
def eqk_line_part[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, 1]) -> Int:
    return (Int(p.unsafe_offset(Int(at))) & 63) // 4


# The first register of a run up to the end of its line.
@always_inline
def eqk_line_head[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, 1], value: SIMD[D, W], part: Int):
    comptime if CompilationTarget.has_avx512f():
        var q = p.unsafe_offset(Int(at))
        if part == 0:
            q.unsafe_store[non_temporal=True, alignment=64](0, value)
        else:
            comptime n = W // 4
            comptime for k in range(3):
                if part <= 12 - 4 * k:
                    q.unsafe_store[non_temporal=True, alignment=16](k * n, value.slice[n, offset=k * n]())
    else:
        eqk_stream[D, W](p, at, value)


# The line that begins in the register before and ends in this one.
@always_inline
def eqk_line[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, 1], before: SIMD[D, W], value: SIMD[D, W], part: Int):
    comptime if CompilationTarget.has_avx512f():
        comptime V = SIMD[DType.float32, 16]
        var i = SIMD[DType.int32, 16](Int32(16 - part))
        comptime for k in range(16):
            i[k] += Int32(k)
        var line = llvm_intrinsic["llvm.x86.avx512.vpermi2var.ps.512", V, has_side_effect=False](
            bitcast[DType.float32, 16](before), i, bitcast[DType.float32, 16](value)
        )
        comptime each = size_of[Scalar[D]]()
        var q = p.unsafe_offset(Int(at) - part * 4 // each)
        q.unsafe_store[non_temporal=True, alignment=64](0, bitcast[D, W](line))
    else:
        eqk_stream[D, W](p, at, value)


# What is left of the last register.
@always_inline
def eqk_line_tail[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, 1], value: SIMD[D, W], part: Int):
    comptime if CompilationTarget.has_avx512f():
        comptime n = W // 4
        var q = p.unsafe_offset(Int(at))
        comptime for k in range(1, 4):
            if part >= 16 - 4 * k:
                q.unsafe_store[non_temporal=True, alignment=16](k * n, value.slice[n, offset=k * n]())


@always_inline
def eqk_stream_end():
    comptime if CompilationTarget.is_x86():
        llvm_intrinsic["llvm.x86.sse.sfence", NoneType]()


@always_inline
def eqk_prefetch[D: DType](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, 1]):
    llvm_intrinsic["llvm.prefetch.p0", NoneType](p.unsafe_offset(Int(at)), Int32(0), Int32(3), Int32(1))


@always_inline
def eqk_store_masked[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, 1], value: SIMD[D, W], mask: SIMD[DType.bool, W]):
    comptime if W == 1:
        if mask[0]:
            p.unsafe_store(Int(at), value)
    else:
        masked_store[W](value, p.unsafe_offset(Int(at)), mask)


@always_inline
def eqk_scatter[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, W], value: SIMD[D, W]):
    comptime for i in range(W):
        p.unsafe_store(Int(at[i]), SIMD[D, 1](value[i]))


@always_inline
def eqk_scatter_masked[D: DType, W: Int](p: Pointer[Scalar[D], MutAnyOrigin], at: SIMD[DType.int64, W], value: SIMD[D, W], mask: SIMD[DType.bool, W]):
    comptime for i in range(W):
        if mask[i]:
            p.unsafe_store(Int(at[i]), SIMD[D, 1](value[i]))
