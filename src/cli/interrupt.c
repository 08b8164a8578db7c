/* SPDX-License-Identifier: MIT */
/*
 * The handler touches atomics, sluice_session_cancel() and async-signal-safe calls only.
 */
#include "config.h"

#include "src/cli/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

enum {
    DEADLY,  /* nothing to stop: the signal ends the program */
    WATCHED, /* the first one cancels the session */
    HELD,    /* the program asks with sluice_interrupt_came() */
};

static _Atomic(SluiceSession *) watched;
static atomic_int mode = DEADLY;
static atomic_int n_came;

static void
handle(int signal_number)
{
    SluiceSession *session = atomic_load(&watched);
    int n_before = atomic_fetch_add(&n_came, 1);
    int now = atomic_load(&mode);

    if (now == HELD)
        return;
    if (now == WATCHED && n_before == 0 && session != NULL) {
        sluice_session_cancel(session);
        return;
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/**
 * sluice_interrupt_init:
 *
 * From here on SIGINT comes here, and a closed pipe is an error of write() instead of a signal.
 */
void
sluice_interrupt_init(void)
{
    struct sigaction action = {.sa_handler = handle};

    /* Without SA_RESTART: reading a line must end when Ctrl-C comes. */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/**
 * sluice_interrupt_watch:
 * @session: the one that is about to work
 *
 * Ctrl-C cancels @session, until sluice_interrupt_release() or sluice_interrupt_hold().
 */
void
sluice_interrupt_watch(SluiceSession *session)
{
    atomic_store(&n_came, 0);
    atomic_store(&watched, session);
    atomic_store(&mode, WATCHED);
}

/**
 * sluice_interrupt_hold:
 *
 * Ctrl-C is only noted, as when a line is read.
 */
void
sluice_interrupt_hold(void)
{
    atomic_store(&n_came, 0);
    atomic_store(&watched, NULL);
    atomic_store(&mode, HELD);
}

/**
 * sluice_interrupt_release:
 *
 * Ctrl-C ends the program.
 */
void
sluice_interrupt_release(void)
{
    atomic_store(&mode, DEADLY);
    atomic_store(&watched, NULL);
}

/**
 * sluice_interrupt_came:
 *
 * Returns: whether Ctrl-C was pressed since watching or holding began
 */
bool
sluice_interrupt_came(void)
{
    return atomic_load(&n_came) > 0;
}

/**
 * sluice_interrupt_await_input:
 * @fd: what is read next
 *
 * Waits until @fd can be read. Ctrl-C ends the wait at whatever moment it comes, also just before
 * the wait begins, where a plain read() would sleep on.
 *
 * Returns: %FALSE if Ctrl-C was pressed since holding began, or waiting fails
 */
bool
sluice_interrupt_await_input(int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    sigset_t interrupt, before;
    bool is_ready;

    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &before);
    is_ready = !sluice_interrupt_came() && ppoll(&input, 1, NULL, &before) > 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_ready && !sluice_interrupt_came();
}
