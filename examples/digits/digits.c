/* SPDX-License-Identifier: Apache-2.0 */
/* Names handwritten digits with three fused GEMMs, on the backend that the profile chooses.
 *
 *     cc digits.c $(pkg-config --cflags --libs kiln) -o digits && ./digits FOLDER [PROFILE] */
#include <kiln/gemm.h>
#include <stdio.h>
#include <stdlib.h>

enum { IMAGES = 1797, HELD_OUT = 360 };

static void check(int good, const char *sentence)
{
    if (!good) {
        fprintf(stderr, "digits: %s\n", sentence);
        exit(1);
    }
}

/* The bytes of FOLDER/name; with `npy`, what follows the header of a .npy file. */
static char *load(const char *folder, const char *name, int npy)
{
    char path[4096], *bytes = calloc(1, 1 << 20);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    check(file && bytes && fread(bytes, 1, 1 << 20, file) > 0, path);
    fclose(file);
    return npy ? bytes + 10 + (unsigned char)bytes[8] + 256 * (unsigned char)bytes[9] : bytes;
}

/* A tensor's data in a safetensors file: 8 bytes of length, a JSON header with offsets, data. */
static char *find(char *file, int layer, const char *what)
{
    char name[32];
    snprintf(name, sizeof name, "\"layer%d.%s\"", layer, what);
    const char *entry = strstr(file + 8, name),
               *offsets = entry ? strstr(entry, "data_offsets") : NULL;
    check(offsets != NULL, name);
    return file + 8 + *(const uint64_t *)file + strtoul(strchr(offsets, '[') + 1, NULL, 10);
}

/* y = x · weightᵀ + bias, with relu but for the last layer. */
static void layer(kiln_runtime *runtime, char *weights, int number, kiln_tensor x, kiln_tensor y)
{
    kiln_tensor weight =
        kiln_matrix(KILN_F16, find(weights, number, "weight"), y.shape[1], x.shape[1], x.shape[1]);
    kiln_gemm_desc desc;
    kiln_gemm_describe(&desc, KILN_GEMM_TRANSPOSE_B, &x, &weight, NULL, &y);
    desc.epilogues[0] =
        (kiln_epilogue){.kind = KILN_EPILOGUE_BIAS, .operand = KILN_OPERAND_ROW, .type = KILN_F32};
    desc.epilogues[1] =
        (kiln_epilogue){.kind = number < 3 ? KILN_EPILOGUE_RELU : KILN_EPILOGUE_NONE};
    desc.epilogue_count = number < 3 ? 2 : 1;
    kiln_tensor tensors[] = {[KILN_GEMM_A] = x,
                             [KILN_GEMM_B] = weight,
                             [KILN_GEMM_D] = y,
                             [KILN_GEMM_OPERAND] =
                                 kiln_vector(KILN_F32, find(weights, number, "bias"), y.shape[1])};
    kiln_gemm_args args = {{sizeof args, sizeof tensors / sizeof *tensors, tensors}, 1, 0};
    check(kiln_call(runtime, KILN_GEMM, &desc.head, NULL, &args.head) == KILN_OK,
          kiln_last_error());
}

int main(int argc, char **argv)
{
    static uint16_t first[IMAGES][128], second[IMAGES][64];
    static float scores[IMAGES][10];
    const char *folder = argc > 1 ? argv[1] : ".";
    kiln_setting staging = {"staging.policy",
                            "allow"}; /* this program's tensors stay in host memory */
    kiln_runtime_options options = {.struct_size = sizeof options,
                                    .profile = argc > 2 ? argv[2] : NULL,
                                    .settings = &staging,
                                    .setting_count = 1};
    kiln_runtime *runtime;
    check(kiln_runtime_open(&options, &runtime) == KILN_OK, kiln_last_error());

    char *weights = load(folder, "weights.safetensors", 0);
    kiln_tensor images = kiln_matrix(KILN_F16, load(folder, "images.npy", 1), IMAGES, 64, 64);
    kiln_tensor hidden1 = kiln_matrix(KILN_F16, first, IMAGES, 128, 128),
                hidden2 = kiln_matrix(KILN_F16, second, IMAGES, 64, 64);
    layer(runtime, weights, 1, images, hidden1);
    layer(runtime, weights, 2, hidden1, hidden2);
    layer(runtime, weights, 3, hidden2, kiln_matrix(KILN_F32, scores, IMAGES, 10, 10));
    kiln_runtime_close(runtime);

    const int64_t *held_out = (const int64_t *)load(folder, "heldout.npy", 1);
    const char *labels = load(folder, "labels.npy", 1);
    int right = 0;
    for (int i = 0; i < HELD_OUT; i++) {
        const float *row = scores[held_out[i]];
        int best = 0;
        for (int digit = 1; digit < 10; digit++)
            best = row[digit] > row[best] ? digit : best;
        right += best == labels[held_out[i]];
    }
    printf("%d of %d held-out images right\n", right, HELD_OUT);
    return 0;
}
