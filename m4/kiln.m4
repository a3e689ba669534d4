# SPDX-License-Identifier: Apache-2.0

# KILN_NEED_MODULE(PREFIX, PKG-CONFIG NAME, DEBIAN PACKAGE, WHAT NEEDS IT)
# A required library; PREFIX_CFLAGS and PREFIX_LIBS are substituted. What is missing is collected, so that one run of
# configure names everything: see KILN_REPORT_MISSING.
AC_DEFUN([KILN_NEED_MODULE], [
    PKG_CHECK_MODULES([$1], [$2], [], [KILN_MISSING([$2], [$3], [$4])])
])

# KILN_MISSING(LIBRARY, DEBIAN PACKAGE, WHAT NEEDS IT)
AC_DEFUN([KILN_MISSING], [
    kiln_missing="$kiln_missing
    $1, needed by $3"
    kiln_missing_packages="$kiln_missing_packages $2"
])

# KILN_REPORT_MISSING
# Ends configure if a required library was not found.
AC_DEFUN([KILN_REPORT_MISSING], [
    AS_IF([test -n "$kiln_missing"], [AC_MSG_ERROR([missing:$kiln_missing
On Debian or Ubuntu:  apt-get install$kiln_missing_packages
Elsewhere install the same libraries with their headers; PKG_CONFIG_PATH, CPPFLAGS and LDFLAGS say where they are.])])
])

# KILN_COMPILER_FLAGS(VARIABLE, FLAGS)
# Appends those of FLAGS to VARIABLE that the compiler accepts without a warning.
AC_DEFUN([KILN_COMPILER_FLAGS], [
    for kiln_flag in $2; do
        AC_MSG_CHECKING([whether $CC accepts $kiln_flag])
        kiln_saved_CFLAGS=$CFLAGS
        CFLAGS="$CFLAGS -Werror $kiln_flag"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
            [AC_MSG_RESULT([yes])
             $1="$$1 $kiln_flag"],
            [AC_MSG_RESULT([no])])
        CFLAGS=$kiln_saved_CFLAGS
    done
])

# KILN_SANITIZERS
# --enable-sanitizers=LIST. Sets kiln_sanitizers (empty without) and appends to KILN_CFLAGS.
AC_DEFUN([KILN_SANITIZERS], [
    AC_ARG_ENABLE([sanitizers],
        [AS_HELP_STRING([--enable-sanitizers=LIST],
            [build with sanitizers: address, undefined, leak (comma-separated), or thread])],
        [kiln_sanitizers=$enableval], [kiln_sanitizers=no])
    AS_CASE([$kiln_sanitizers],
        [no], [kiln_sanitizers=],
        [yes], [kiln_sanitizers=address,undefined])
    AS_IF([test -n "$kiln_sanitizers"], [
        for kiln_name in `echo "$kiln_sanitizers" | tr ',' ' '`; do
            AS_CASE([$kiln_name],
                [address|undefined|leak|thread], [],
                [AC_MSG_ERROR([--enable-sanitizers: unknown sanitizer '$kiln_name'; known are address, undefined, leak, thread])])
        done
        KILN_CFLAGS="$KILN_CFLAGS -fsanitize=$kiln_sanitizers -fno-omit-frame-pointer"
        AS_CASE([,$kiln_sanitizers,],
            [*,undefined,*], [KILN_CFLAGS="$KILN_CFLAGS -fno-sanitize-recover=undefined"])
        AC_MSG_CHECKING([whether $CC links with -fsanitize=$kiln_sanitizers])
        kiln_saved_CFLAGS=$CFLAGS
        CFLAGS="$CFLAGS -fsanitize=$kiln_sanitizers"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([--enable-sanitizers=$kiln_sanitizers does not link; thread goes with no other, and clang needs its
runtime (Debian: libclang-rt-dev, or libclang-common-N-dev before version 15)])])
        CFLAGS=$kiln_saved_CFLAGS
    ])
])
