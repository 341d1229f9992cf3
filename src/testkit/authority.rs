//! Certificates for tests: an authority of our own, and what it signs.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, in PEM.
    pub certificate: String,
}

/// A certificate and its private key, in PEM.
#[derive(Debug, Clone)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// For a server with these names, for a very long time.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_for(names, [2020, 2100])
    }

    /// From the beginning of one year to that of another.
    pub fn issue_for(&self, names: &[&str], years: [i32; 2]) -> Issued {
        self.sign(names, years, ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub fn issue_for_client(&self, name: &str) -> Issued {
        self.sign(&[name], [2020, 2100], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, names: &[&str], [from, to]: [i32; 2], purpose: ExtendedKeyUsagePurpose) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        Issued { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}
