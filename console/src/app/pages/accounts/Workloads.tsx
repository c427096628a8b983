import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { App, Button, Modal, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { allPages, api, etag, got, type Schemas, serverURL } from '../../../api/client';
import { useMay, usePrincipalName, useServiceAccounts } from '../../data';
import { Badge, Code, ConfirmByName, Copyable, DataTable, MayButton, Nothing, Outcome, SectionHead } from '../../ui';
import { ScopeSummary } from '../keys/show';
import { exchangeCommand, githubStep, issuers } from './exchange';
import { WorkloadDialog } from './WorkloadDialog';

type Workload = Schemas['WorkloadIdentity'];
type Open = { what: 'create' } | { what: 'edit' | 'delete' | 'use'; workload: Workload };

/** Programs that come with a token of another issuer instead of a secret of ours. */
export function Workloads() {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const mayWrite = useMay('service_account:write');
  const accounts = useServiceAccounts();
  const nameOf = usePrincipalName();
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const query = useQuery({
    queryKey: ['workloads'],
    queryFn: ({ signal }) =>
      allPages((page_token) => got(api.GET('/v1/workload-identities', { params: { query: { page_token } }, signal }))),
  });
  const noAccount = accounts.data?.length === 0;
  return (
    <section>
      <SectionHead
        title={t('workloads.title')}
        lead={t('workloads.lead')}
        actions={
          <MayButton
            may={mayWrite && !noAccount}
            onClick={() => setOpen({ what: 'create' })}
            data-testid="create-workload"
          >
            {t('workloads.create')}
          </MayButton>
        }
      />
      <Outcome
        query={query}
        isEmpty={(d) => d.length === 0}
        empty={<Nothing text={noAccount ? t('workloads.account_first') : t('workloads.empty')} />}
      >
        {(items) => (
          <DataTable<Workload>
            label={t('workloads.title')}
            rowKey="id"
            dataSource={items}
            pagination={false}
            columns={[
              {
                title: t('field.name'),
                render: (_, w) => (
                  <>
                    {w.name}{' '}
                    <Badge tone={w.enabled ? 'good' : 'warn'}>
                      {t(`key_state.${w.enabled ? 'active' : 'disabled'}`)}
                    </Badge>
                    <div>
                      <Copyable text={w.id} what={t('field.id')} />
                    </div>
                  </>
                ),
              },
              {
                title: t('workloads.who'),
                render: (_, w) => (
                  <>
                    <code>{w.issuer}</code>
                    <div>
                      <code>{w.subject}</code>
                    </div>
                    {Object.entries(w.conditions).map(([claim, pattern]) => (
                      <div key={claim} className="muted">
                        {claim} <code>{pattern}</code>
                      </div>
                    ))}
                  </>
                ),
              },
              {
                title: t('workloads.as'),
                render: (_, w) => (
                  <>
                    {nameOf(w.service_account_id)}
                    <ScopeSummary apiKey={w} />
                    <Link to="/api-keys/$id" params={{ id: w.key_id }}>
                      {t('workloads.key')}
                    </Link>
                  </>
                ),
              },
              { title: t('workloads.ttl'), dataIndex: 'max_ttl' },
              {
                title: t('field.actions'),
                className: 'stays',
                render: (_, w) => (
                  <Space orientation="vertical">
                    <Button
                      size="small"
                      aria-label={t('workloads.use_one', { name: w.name })}
                      onClick={() => setOpen({ what: 'use', workload: w })}
                    >
                      {t('workloads.use')}
                    </Button>
                    <MayButton
                      may={mayWrite}
                      size="small"
                      aria-label={t('workloads.edit', { name: w.name })}
                      onClick={() => setOpen({ what: 'edit', workload: w })}
                    >
                      {t('action.edit')}
                    </MayButton>
                    <MayButton
                      may={mayWrite}
                      size="small"
                      danger
                      aria-label={t('workloads.delete', { name: w.name })}
                      onClick={() => setOpen({ what: 'delete', workload: w })}
                    >
                      {t('action.delete')}
                    </MayButton>
                  </Space>
                ),
              },
            ]}
          />
        )}
      </Outcome>
      {open?.what === 'create' && (
        <WorkloadDialog onClose={close} onMade={(workload) => setOpen({ what: 'use', workload })} />
      )}
      {open?.what === 'edit' && <WorkloadDialog workload={open.workload} onClose={close} />}
      {open?.what === 'use' && <HowToUse workload={open.workload} onClose={close} />}
      {open?.what === 'delete' && (
        <ConfirmByName
          open
          title={t('workloads.delete', { name: open.workload.name })}
          text={t('workloads.delete_text')}
          name={open.workload.name}
          action={t('action.delete')}
          onClose={close}
          run={async () => {
            const { workload } = open;
            await got(
              api.DELETE('/v1/workload-identities/{id}', {
                params: { path: { id: workload.id }, header: { 'If-Match': etag(workload) } },
              }),
            );
            void message.success(t('workloads.deleted', { name: workload.name }));
            await queries.invalidateQueries({ queryKey: ['workloads'] });
          }}
        />
      )}
    </section>
  );
}

function HowToUse({ workload, onClose }: { workload: Workload; onClose: () => void }) {
  const { t } = useTranslation();
  const server = new URL(serverURL(''), location.href).href.replace(/\/$/, '');
  return (
    <Modal
      open
      title={t('workloads.use_one', { name: workload.name })}
      footer={<Button onClick={onClose}>{t('keys.done')}</Button>}
      onCancel={onClose}
      width={720}
    >
      <p>
        {t('workloads.use_text')} <Copyable text={workload.audience} what={t('workloads.audience')} />
      </p>
      <p>{t('workloads.exchange')}</p>
      <Code text={exchangeCommand(server, workload.id)} title={t('workloads.use')} />
      {workload.issuer === issuers.github && (
        <>
          <p>{t('workloads.github')}</p>
          <Code text={githubStep(server, workload.id, workload.audience)} title={t('workloads.github')} />
        </>
      )}
      <p className="muted">{t('workloads.use_sdk')}</p>
    </Modal>
  );
}
