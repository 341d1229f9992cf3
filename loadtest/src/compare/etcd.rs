//! The lock in etcd. Without contention: a transaction that creates the key if it is absent, and one that deletes it if
//! it has not been replaced; the store's revision is the fencing token. With contention: etcd's own Lock service, which
//! queues on the server.

use std::net::SocketAddr;

use crate::compare::peer::{Claim, Client, Fault, Peer};
use crate::compare::plan::name_of;
use crate::wire::etcd::{
    COMPARE_CREATE_REVISION, Compare, CompareWith, EtcdClient, EtcdError, Keys, LeaseGrantRequest, LeaseGrantResponse,
    LockRequest, LockResponse, Nothing, Op, PutRequest, RequestOp, ResponseHeader, TxnRequest, TxnResponse,
};

const TXN: &str = "/etcdserverpb.KV/Txn";
/// Longer than any turn, so that no lock expires during one.
const LEASE_SECONDS: i64 = 3600;

#[derive(Clone)]
pub struct Etcd {
    /// The members; the clients are spread over them.
    pub addresses: Vec<SocketAddr>,
}

pub struct EtcdLock {
    etcd: EtcdClient,
    /// One lease for all locks of this client: a lease per lock would cost another write.
    lease: Option<i64>,
    owner: Vec<u8>,
    held: Held,
}

enum Held {
    Nothing,
    Key { key: Vec<u8>, created_at: i64 },
    Lock { key: Vec<u8> },
}

impl Peer for Etcd {
    type Client = EtcdLock;

    async fn connect(&self, number: u32) -> Result<EtcdLock, Fault> {
        let etcd = EtcdClient::connect(self.addresses[number as usize % self.addresses.len()]).await?;
        Ok(EtcdLock { etcd, lease: None, owner: format!("client-{number}").into_bytes(), held: Held::Nothing })
    }
}

impl Client for EtcdLock {
    async fn claim(&mut self, name: u32) -> Result<Claim, Fault> {
        let key = name_of(name).into_bytes();
        let put = Op::Put(PutRequest { key: key.clone(), value: self.owner.clone() });
        let answer: TxnResponse = self.etcd.call(TXN, transaction(key.clone(), 0, put)).await?;
        if !answer.succeeded {
            return Ok(Claim::Busy);
        }
        let created_at = revision(answer.header)?;
        self.held = Held::Key { key, created_at };
        Ok(Claim::Granted(Some(created_at.unsigned_abs())))
    }

    async fn claim_waiting(&mut self, name: u32) -> Result<Claim, Fault> {
        let lease = match self.lease {
            Some(lease) => lease,
            None => {
                let lease = LeaseGrantRequest { ttl: LEASE_SECONDS };
                let granted: LeaseGrantResponse = self.etcd.call("/etcdserverpb.Lease/LeaseGrant", lease).await?;
                *self.lease.insert(granted.id)
            }
        };
        let lock = LockRequest { name: name_of(name).into_bytes(), lease };
        let answer: LockResponse = self.etcd.call("/v3lockpb.Lock/Lock", lock).await?;
        self.held = Held::Lock { key: answer.key };
        Ok(Claim::Granted(Some(revision(answer.header)?.unsigned_abs())))
    }

    async fn release(&mut self) -> Result<(), Fault> {
        match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Nothing => Err(Fault::NotHeld),
            Held::Lock { key } => {
                let Nothing {} = self.etcd.call("/v3lockpb.Lock/Unlock", Keys::one(key)).await?;
                Ok(())
            }
            Held::Key { key, created_at } => {
                let delete = Op::DeleteRange(Keys::one(key.clone()));
                let answer: TxnResponse = self.etcd.call(TXN, transaction(key, created_at, delete)).await?;
                if answer.succeeded { Ok(()) } else { Err(Fault::NotHeld) }
            }
        }
    }
}

/// Performs `then` if the key was created at that revision; zero means that it must be absent.
fn transaction(key: Vec<u8>, created_at: i64, then: Op) -> TxnRequest {
    let with = Some(CompareWith::CreateRevision(created_at));
    TxnRequest {
        compare: vec![Compare { target: COMPARE_CREATE_REVISION, key, with }],
        success: vec![RequestOp { op: Some(then) }],
    }
}

/// Every answer has a revision above zero.
fn revision(header: Option<ResponseHeader>) -> Result<i64, EtcdError> {
    header.map(|header| header.revision).filter(|revision| *revision > 0).ok_or(EtcdError::NoRevision)
}
