#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files of this folder as other programs write them. Needs numpy, ml_dtypes and safetensors.

The elements are 1, 2, 3, ... in every file that Kiln reads, so that the tests need no second copy of them.
"""
import io
import os
import zipfile

import ml_dtypes
import numpy
import safetensors
from numpy.lib import format as npy

os.chdir(os.path.dirname(os.path.abspath(__file__)))


def count(dtype, *shape):
    return numpy.arange(1, 1 + int(numpy.prod(shape))).astype(dtype).reshape(shape)


def save(name, array, version=(1, 0)):
    with open(name, "wb") as file:
        npy.write_array(file, array, version)


save("f4.npy", count("<f4", 2, 3))
save("version2.npy", count("<i2", 5), (2, 0))
save("version3.npy", count("|u1", 2, 2), (3, 0))
save("scalar.npy", numpy.array(1.0, "<f8"))
save("fortran.npy", numpy.asfortranarray(count("<f2", 2, 3)))
save("big_endian.npy", count(">f4", 3))
save("structured.npy", numpy.zeros(2, [("a", "<f4"), ("b", "<i2")]))
save("bfloat16.npy", count(ml_dtypes.bfloat16, 4))
save("complex.npy", count("<c8", 2))
with open("object.npy", "wb") as file:
    npy.write_array(file, numpy.array([None, None], object), allow_pickle=True)

numpy.savez("stored.npz", a=count("<f8", 2, 2), b=count("<i4", 3), c=numpy.array("text"))
numpy.savez_compressed("deflated.npz", f4=count("<f4", 1, 2), f2=count("<f2", 2), i8=count("<i8", 2), i2=count("<i2", 2),
                       i1=count("|i1", 2), u8=count("<u8", 2), u4=count("<u4", 2), u2=count("<u2", 2))

# Sizes and offsets in zip64 records everywhere, as in an archive beyond 4 GB.
zipfile.ZIP64_LIMIT = 8
with zipfile.ZipFile("zip64.npz", "w") as archive:
    for name in ("x", "y"):
        member = io.BytesIO()
        npy.write_array(member, count("<f4", 2, 2))
        archive.writestr(zipfile.ZipInfo(name + ".npy"), member.getvalue())

with zipfile.ZipFile("bzip2.npz", "w", zipfile.ZIP_BZIP2) as archive:
    member = io.BytesIO()
    npy.write_array(member, count("<f4", 64))
    archive.writestr(zipfile.ZipInfo("x.npy"), member.getvalue(), zipfile.ZIP_BZIP2)

TYPES = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": ml_dtypes.bfloat16,
         "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2, "int64": "<i8", "int32": "<i4",
         "int16": "<i2", "int8": "|i1", "uint64": "<u8", "uint32": "<u4", "uint16": "<u2", "uint8": "|u1"}
CODES = {"bool": b"\x01\x01", "float8_e8m0fnu": b"\x7f\x80", "float4_e2m1fn_x2": b"\x42", "complex64": bytes(16)}
data = {name: count(dtype, 2) for name, dtype in TYPES.items()}
data |= {name: numpy.frombuffer(code, "|u1") for name, code in CODES.items()}
tensors = {name: safetensors.TensorSpec(dtype=name, shape=[len(array) if name in CODES and name != "complex64" else 2],
                                        data_ptr=array.ctypes.data, data_len=array.nbytes) for name, array in data.items()}
with open("types.safetensors", "wb") as file:
    file.write(safetensors.serialize(tensors, {"made by": "safetensors " + safetensors.__version__}))
