/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object that is no plugin at all. */
__attribute__((visibility("default"))) int blank_answer(void);
int blank_answer(void)
{
    return 42;
}
