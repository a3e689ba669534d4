/* SPDX-License-Identifier: Apache-2.0 */
/* The shared object as a file: its name, and its table of dynamic symbols. */
#include "conformance/plugin/abi/abi.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct elf_file {
    unsigned char *bytes;
    size_t size;
    const ElfW(Sym) * symbols;
    size_t symbol_count;
    const char *strings; /* of the symbols and of DT_NEEDED */
    size_t string_size;
    const ElfW(Dyn) * dynamic;
    size_t dynamic_count;
} elf_file;

static bool read_whole(const char *path, elf_file *file)
{
    struct stat about;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    bool done = fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0;
    if (done)
        file->bytes = malloc((size_t)about.st_size);
    done = done && file->bytes;
    while (done && file->size < (size_t)about.st_size) {
        ssize_t got =
            read(descriptor, file->bytes + file->size, (size_t)about.st_size - file->size);
        done = got > 0;
        file->size += got > 0 ? (size_t)got : 0;
    }
    close(descriptor);
    return done;
}

/* A part of the file, NULL when it does not lie within. */
static const void *part(const elf_file *file, uint64_t offset, uint64_t bytes)
{
    return offset <= file->size && bytes <= file->size - offset ? file->bytes + offset : NULL;
}

static const char *string_at(const elf_file *file, uint64_t offset)
{
    if (offset >= file->string_size ||
        !memchr(file->strings + offset, '\0', file->string_size - offset))
        return "";
    return file->strings + offset;
}

static const ElfW(Shdr) * section(const elf_file *file, const ElfW(Ehdr) * head, size_t index)
{
    if (index >= head->e_shnum || head->e_shentsize != sizeof(ElfW(Shdr)))
        return NULL;
    return part(file, head->e_shoff + index * sizeof(ElfW(Shdr)), sizeof(ElfW(Shdr)));
}

static void find_tables(elf_file *file, const ElfW(Ehdr) * head)
{
    for (size_t i = 0; i < head->e_shnum; i++) {
        const ElfW(Shdr) *at = section(file, head, i);
        const void *data = at ? part(file, at->sh_offset, at->sh_size) : NULL;
        if (!data)
            continue;
        if (at->sh_type == SHT_DYNAMIC) {
            file->dynamic = data;
            file->dynamic_count = at->sh_size / sizeof(ElfW(Dyn));
        }
        const ElfW(Shdr) *strings =
            at->sh_type == SHT_DYNSYM ? section(file, head, at->sh_link) : NULL;
        const void *text = strings ? part(file, strings->sh_offset, strings->sh_size) : NULL;
        if (text) {
            file->symbols = data;
            file->symbol_count = at->sh_size / sizeof(ElfW(Sym));
            file->strings = text;
            file->string_size = strings->sh_size;
        }
    }
}

/* The caller frees file->bytes in any case. */
static bool read_elf(const char *path, elf_file *file, conformance_report *report)
{
    memset(file, 0, sizeof *file);
    if (!read_whole(path, file)) {
        conformance_fail(report, "the file cannot be read");
        return false;
    }
    const ElfW(Ehdr) *head = part(file, 0, sizeof *head);
    const unsigned char native = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_type != ET_DYN ||
        head->e_ident[EI_CLASS] != native) {
        conformance_fail(report, "the file is not an ELF shared object of this machine's width");
        return false;
    }
    find_tables(file, head);
    if (file->symbols)
        return true;
    conformance_fail(report, "the file has no table of dynamic symbols");
    return false;
}

/* Names that linkers, compilers and C++ libraries add to every shared object. */
static bool is_toolchain(const char *name, unsigned binding)
{
    static const char *const names[] = {"_init",       "_fini",   "__bss_start",
                                        "_edata",      "_end",    "__bss_start__",
                                        "__bss_end__", "__end__", "_edata__"};
    static const char *const prefixes[] = {"__asan_", "__odr_asan", "__tsan_",  "__ubsan_",
                                           "__gcov",  "__llvm_",    "__sancov", "__start_",
                                           "__stop_", "___asan_"};
    static const char *const standard[] = {"_ZNSt",  "_ZNKSt",        "_ZSt",
                                           "_ZTISt", "_ZTSSt",        "_ZTVSt",
                                           "_ZGVN",  "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    if (binding == STB_WEAK || binding == STB_GNU_UNIQUE)
        for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++)
            if (strncmp(name, standard[i], strlen(standard[i])) == 0)
                return true;
    return false;
}

static bool is_exported(const ElfW(Sym) * symbol)
{
    unsigned binding = ELF64_ST_BIND(symbol->st_info), kind = ELF64_ST_TYPE(symbol->st_info),
             visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
           (binding == STB_GLOBAL || binding == STB_WEAK || binding == STB_GNU_UNIQUE) &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED) && kind != STT_SECTION &&
           kind != STT_FILE;
}

/* ---- The checks ---- */

void conformance_abi_file_name(const conformance_subject *subject, conformance_report *report)
{
    const char *slash = strrchr(subject->path, '/'), *file = slash ? slash + 1 : subject->path;
    size_t length = strlen(file);
    report->cases = 1;
    if (length <= 3 || strcmp(file + length - 3, ".so") != 0 ||
        strlen(subject->name) != length - 3 || strncmp(file, subject->name, length - 3) != 0)
        conformance_fail(report, "the file is called %s; it must be NAME.so", file);
    else if (length - 3 > 31 || *file < 'a' || *file > 'z' ||
             strspn(file, "abcdefghijklmnopqrstuvwxyz0123456789-") != length - 3)
        conformance_fail(report,
                         "'%s' is not a plugin's name: a letter, then at most 30 of [a-z0-9-]",
                         subject->name);
}

void conformance_abi_one_symbol(const conformance_subject *subject, conformance_report *report)
{
    elf_file file;
    int64_t found = 0;
    if (read_elf(subject->path, &file, report))
        for (size_t i = 1; i < file.symbol_count; i++) {
            const char *name = string_at(&file, file.symbols[i].st_name);
            if (!is_exported(&file.symbols[i]))
                continue;
            report->cases++;
            if (strcmp(name, KILN_PLUGIN_SYMBOL) == 0)
                found++;
            else if (!is_toolchain(name, ELF64_ST_BIND(file.symbols[i].st_info)))
                conformance_fail(report,
                                 "exports %s; compile with -fvisibility=hidden and make static "
                                 "what is not the entry",
                                 name);
        }
    free(file.bytes);
    if (found != 1)
        conformance_fail(report, "does not export %s", KILN_PLUGIN_SYMBOL);
}

void conformance_abi_no_kiln(const conformance_subject *subject, conformance_report *report)
{
    elf_file file;
    if (read_elf(subject->path, &file, report)) {
        for (size_t i = 0; i < file.dynamic_count && file.dynamic[i].d_tag != DT_NULL; i++) {
            const char *name = string_at(&file, file.dynamic[i].d_un.d_val);
            if (file.dynamic[i].d_tag != DT_NEEDED)
                continue;
            report->cases++;
            if (strncmp(name, "libkiln.", 8) == 0)
                conformance_fail(report, "is linked with %s; a plugin links nothing of Kiln", name);
        }
        for (size_t i = 1; i < file.symbol_count; i++) {
            const char *name = string_at(&file, file.symbols[i].st_name);
            report->cases++;
            if (file.symbols[i].st_shndx == SHN_UNDEF && strncmp(name, "kiln_", 5) == 0)
                conformance_fail(
                    report, "calls %s of the library; what it needs it finds in the host table",
                    name);
        }
    }
    free(file.bytes);
}
