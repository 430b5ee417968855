// SPDX-License-Identifier: Apache-2.0
// Certificates for tests, as PEM files in a temporary folder.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "lib/base/assert.h"

namespace wss::test {

class Authority {
  public:
    struct Issued {
        std::string certificate, key;  // files
    };
    Authority() {
        const bool made = mkdtemp(folder_.data()) != nullptr;
        WSS_ASSERT(made, "there is room below /tmp");
        key_.reset(EVP_EC_gen("P-256"));
        certificate_ = make("authority of a test", *key_, nullptr, 3600);
        write("ca", *key_, *certificate_);
    }
    ~Authority() {
        const std::string command = "rm -rf " + folder_;
        [[maybe_unused]] const int left = std::system(command.c_str());
    }

    std::string file() const { return folder_ + "/ca.pem"; }
    // Issues a certificate for `names`, for example "IP:127.0.0.1,DNS:host". It is valid for `seconds` from
    // now.
    Issued issue(const std::string& name, const std::string& names, long seconds = 3600) {
        std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
        auto certificate = make(name, *key, names.c_str(), seconds);
        write(name, *key, *certificate);
        return {folder_ + "/" + name + ".pem", folder_ + "/" + name + ".key"};
    }
    // Encrypts the key in the file with a passphrase.
    static void protect(const std::string& key_file) {
        FILE* file = fopen(key_file.c_str(), "r");
        std::unique_ptr<EVP_PKEY, FreeKey> key(PEM_read_PrivateKey(file, nullptr, nullptr, nullptr));
        fclose(file);
        file = fopen(key_file.c_str(), "w");
        const unsigned char phrase[] = "passphrase";
        PEM_write_PrivateKey(file, key.get(), EVP_aes_128_cbc(), phrase, sizeof phrase - 1, nullptr, nullptr);
        fclose(file);
    }

  private:
    struct FreeCertificate {
        void operator()(X509* certificate) const { X509_free(certificate); }
    };
    struct FreeKey {
        void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    };
    using Certificate = std::unique_ptr<X509, FreeCertificate>;

    static void extend(X509& certificate, int id, const char* value) {
        X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value);
        WSS_ASSERT(extension != nullptr, "the extension is well formed");
        X509_add_ext(&certificate, extension, -1);
        X509_EXTENSION_free(extension);
    }
    Certificate make(const std::string& name, EVP_PKEY& key, const char* names, long seconds) {
        Certificate made(X509_new());
        X509_set_version(made.get(), X509_VERSION_3);
        ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial_);
        X509_gmtime_adj(X509_getm_notBefore(made.get()), -7200);
        X509_gmtime_adj(X509_getm_notAfter(made.get()), seconds);
        X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                                   reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
        X509* issuer = certificate_ ? certificate_.get() : made.get();
        X509_set_issuer_name(made.get(), X509_get_subject_name(issuer));
        X509_set_pubkey(made.get(), &key);
        if (names == nullptr)
            extend(*made, NID_basic_constraints, "critical,CA:TRUE");
        else
            extend(*made, NID_subject_alt_name, names);
        X509_sign(made.get(), key_.get(), EVP_sha256());
        return made;
    }
    void write(const std::string& name, EVP_PKEY& key, X509& certificate) const {
        FILE* file = fopen((folder_ + "/" + name + ".pem").c_str(), "w");
        PEM_write_X509(file, &certificate);
        fclose(file);
        file = fopen((folder_ + "/" + name + ".key").c_str(), "w");
        PEM_write_PrivateKey(file, &key, nullptr, nullptr, 0, nullptr, nullptr);
        fclose(file);
    }

    std::string folder_ = "/tmp/wss-certificates-XXXXXX";
    std::unique_ptr<EVP_PKEY, FreeKey> key_;
    Certificate certificate_;
    long serial_ = 0;
};

}  // namespace wss::test
