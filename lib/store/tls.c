/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS of a client's connection: OpenSSL between two memory buffers, so that it
 * never accesses a socket.
 */
#include "store/link.h"

#ifdef HAVE_OPENSSL
#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

struct symc_tls {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
};

static symmcoll_status_t fail_tls(symmcoll_status_t status, const char *what)
{
    char reason[160] = "no reason is known";
    unsigned long error = ERR_get_error();

    if (error != 0)
        ERR_error_string_n(error, reason, sizeof(reason));
    ERR_clear_error();
    return symc_fail(status, "tcp store: TLS: %s: %s", what, reason);
}

static symmcoll_status_t load_files(
    SSL_CTX *context, const struct symc_place *place)
{
    if (place->tls_ca != NULL
            ? SSL_CTX_load_verify_locations(context, place->tls_ca, NULL) != 1
            : SSL_CTX_set_default_verify_paths(context) != 1)
        return fail_tls(SYMMCOLL_ERR_INVALID,
            place->tls_ca != NULL ? place->tls_ca : "the system's authorities");
    if (place->tls_cert != NULL &&
        SSL_CTX_use_certificate_chain_file(context, place->tls_cert) != 1)
        return fail_tls(SYMMCOLL_ERR_INVALID, place->tls_cert);
    if (place->tls_cert != NULL &&
        SSL_CTX_use_PrivateKey_file(context,
            place->tls_key != NULL ? place->tls_key : place->tls_cert,
            SSL_FILETYPE_PEM) != 1)
        return fail_tls(SYMMCOLL_ERR_INVALID, "the private key");
    return SYMMCOLL_OK;
}

/* Requires a certificate for this host, by name or by address. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char address[16];

    if (inet_pton(AF_INET, host, address) == 1 ||
        inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 &&
           SSL_set_tlsext_host_name(ssl, host) == 1;
}

symmcoll_status_t symc_tls_open(
    const struct symc_place *place, struct symc_tls **out)
{
    struct symc_tls *tls = symc_alloc(1, sizeof(*tls));
    symmcoll_status_t status;

    if (tls == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    tls->context = SSL_CTX_new(TLS_client_method());
    if (tls->context == NULL) {
        status = fail_tls(SYMMCOLL_ERR_SYSTEM, "a context");
        goto close_tls;
    }
    SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
    status = load_files(tls->context, place);
    if (status != SYMMCOLL_OK)
        goto close_tls;
    tls->ssl = SSL_new(tls->context);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (tls->ssl == NULL || tls->in == NULL || tls->out == NULL) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        status = fail_tls(SYMMCOLL_ERR_NO_MEMORY, "a connection");
        goto close_tls;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    if (!expect_host(tls->ssl, place->host)) {
        status = fail_tls(SYMMCOLL_ERR_INVALID, place->host);
        goto close_tls;
    }
    *out = tls;
    return SYMMCOLL_OK;

close_tls:
    symc_tls_close(tls);
    return status;
}

void symc_tls_close(struct symc_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    free(tls);
}

symmcoll_status_t symc_tls_feed(
    struct symc_tls *tls, const void *data, size_t nbytes)
{
    if (nbytes == 0 || BIO_write(tls->in, data, (int)nbytes) == (int)nbytes)
        return SYMMCOLL_OK;
    return fail_tls(SYMMCOLL_ERR_NO_MEMORY, "received data");
}

symmcoll_status_t symc_tls_shake(struct symc_tls *tls, bool *done)
{
    int result;
    long verified;

    ERR_clear_error();
    result = SSL_do_handshake(tls->ssl);
    *done = result == 1;
    if (result == 1 || SSL_get_error(tls->ssl, result) == SSL_ERROR_WANT_READ)
        return SYMMCOLL_OK;
    verified = SSL_get_verify_result(tls->ssl);
    if (verified != X509_V_OK) {
        ERR_clear_error();
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "tcp store: TLS: the server's certificate: %s",
            X509_verify_cert_error_string(verified));
    }
    return fail_tls(SYMMCOLL_ERR_SYSTEM, "handshake");
}

symmcoll_status_t symc_tls_write(
    struct symc_tls *tls, const void *data, size_t nbytes)
{
    size_t written = 0;

    ERR_clear_error();
    if (nbytes == 0 || SSL_write_ex(tls->ssl, data, nbytes, &written) == 1)
        return SYMMCOLL_OK;
    return fail_tls(SYMMCOLL_ERR_SYSTEM, "sending");
}

size_t symc_tls_drain(struct symc_tls *tls, void *data, size_t room)
{
    int n = BIO_read(tls->out, data, (int)room);

    return n > 0 ? (size_t)n : 0;
}

symmcoll_status_t symc_tls_read(
    struct symc_tls *tls, void *data, size_t room, size_t *nbytes)
{
    int result, error;

    *nbytes = 0;
    ERR_clear_error();
    result = SSL_read_ex(tls->ssl, data, room, nbytes);
    if (result == 1)
        return SYMMCOLL_OK;
    error = SSL_get_error(tls->ssl, result);
    if (error == SSL_ERROR_WANT_READ)
        return SYMMCOLL_OK;
    return fail_tls(SYMMCOLL_ERR_SYSTEM,
        error == SSL_ERROR_ZERO_RETURN ? "the server closed the connection"
                                       : "receiving");
}

#else

symmcoll_status_t symc_tls_open(
    const struct symc_place *place, struct symc_tls **out)
{
    (void)place;
    (void)out;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "tcp store: TLS: this library was built without OpenSSL");
}

void symc_tls_close(struct symc_tls *tls)
{
    (void)tls;
}

symmcoll_status_t symc_tls_feed(
    struct symc_tls *tls, const void *data, size_t nbytes)
{
    (void)data;
    (void)nbytes;
    return symc_tls_open(NULL, &tls);
}

symmcoll_status_t symc_tls_shake(struct symc_tls *tls, bool *done)
{
    *done = false;
    return symc_tls_open(NULL, &tls);
}

symmcoll_status_t symc_tls_write(
    struct symc_tls *tls, const void *data, size_t nbytes)
{
    return symc_tls_feed(tls, data, nbytes);
}

size_t symc_tls_drain(struct symc_tls *tls, void *data, size_t room)
{
    (void)tls;
    (void)data;
    (void)room;
    return 0;
}

symmcoll_status_t symc_tls_read(
    struct symc_tls *tls, void *data, size_t room, size_t *nbytes)
{
    *nbytes = 0;
    return symc_tls_feed(tls, data, room);
}
#endif
