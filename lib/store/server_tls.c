/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS of the server's connections.
 */
#include "store/serving.h"

#ifdef HAVE_OPENSSL
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

static symmcoll_status_t fail_file(SSL_CTX *context, const char *what)
{
    char reason[160] = "no reason is known";
    unsigned long error = ERR_get_error();

    if (error != 0)
        ERR_error_string_n(error, reason, sizeof(reason));
    ERR_clear_error();
    SSL_CTX_free(context);
    return symc_fail(
        SYMMCOLL_ERR_INVALID, "tcp store: TLS: %s: %s", what, reason);
}

symmcoll_status_t symc_server_tls_open(
    const struct symc_place *place, void **tls)
{
    SSL_CTX *context;

    if (place->tls_cert == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "tcp store: TLS: expected tls_cert, the server's certificate");
    ERR_clear_error();
    context = SSL_CTX_new(TLS_server_method());
    if (context == NULL)
        return fail_file(NULL, "a context");
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    if (SSL_CTX_use_certificate_chain_file(context, place->tls_cert) != 1)
        return fail_file(context, place->tls_cert);
    if (SSL_CTX_use_PrivateKey_file(context,
            place->tls_key != NULL ? place->tls_key : place->tls_cert,
            SSL_FILETYPE_PEM) != 1)
        return fail_file(context, "the private key");
    /* With tls_ca, clients need a certificate of these authorities. */
    if (place->tls_ca != NULL) {
        if (SSL_CTX_load_verify_locations(context, place->tls_ca, NULL) != 1)
            return fail_file(context, place->tls_ca);
        SSL_CTX_set_verify(
            context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    *tls = context;
    return SYMMCOLL_OK;
}

void symc_server_tls_close(void *tls)
{
    SSL_CTX_free(tls);
}

struct bufferevent *symc_server_tls_accept(struct symc_server *server, int fd)
{
    SSL *ssl = SSL_new(server->tls);
    struct bufferevent *events;

    if (ssl == NULL)
        return NULL;
    events = bufferevent_openssl_socket_new(server->base, fd, ssl,
        BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (events == NULL)
        SSL_free(ssl);
    else
        bufferevent_openssl_set_allow_dirty_shutdown(events, 1);
    return events;
}

#else

symmcoll_status_t symc_server_tls_open(
    const struct symc_place *place, void **tls)
{
    (void)place;
    (void)tls;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "tcp store: TLS: this library was built without OpenSSL");
}

void symc_server_tls_close(void *tls)
{
    (void)tls;
}

struct bufferevent *symc_server_tls_accept(struct symc_server *server, int fd)
{
    (void)server;
    (void)fd;
    return NULL;
}
#endif
