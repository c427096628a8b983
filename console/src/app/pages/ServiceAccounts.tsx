import { useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { App, Form, Input, Modal, Space, Switch } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../api/client';
import { useMay, useServiceAccounts } from '../data';
import {
  Badge,
  ConfirmByName,
  Copyable,
  DataTable,
  MayButton,
  Nothing,
  Outcome,
  PageHead,
  ProblemView,
  Time,
} from '../ui';
import { useSave } from '../useSave';
import { Workloads } from './accounts/Workloads';

type Account = Schemas['ServiceAccount'];
type Open = { what: 'create' } | { what: 'edit' | 'delete'; account: Account };

/** Machines that own keys, and the programs of other issuers that act for them. */
export function ServiceAccounts() {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const mayWrite = useMay('service_account:write');
  const seesRoles = useMay('role:read');
  const query = useServiceAccounts();
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const create = (
    <MayButton
      may={mayWrite}
      type="primary"
      onClick={() => setOpen({ what: 'create' })}
      data-testid="create-service-account"
    >
      {t('accounts.create')}
    </MayButton>
  );
  return (
    <>
      <PageHead title={t('nav.service_accounts')} lead={t('accounts.lead')} actions={create} />
      <Outcome query={query} isEmpty={(d) => d.length === 0} empty={<Nothing text={t('accounts.empty')} />}>
        {(items) => (
          <DataTable<Account>
            label={t('nav.service_accounts')}
            rowKey="id"
            dataSource={items}
            pagination={false}
            columns={[
              {
                title: t('field.name'),
                render: (_, a) => (
                  <>
                    {a.name}
                    {a.description && <div className="muted">{a.description}</div>}
                    <div>
                      <Copyable text={a.id} what={t('field.id')} />
                    </div>
                  </>
                ),
              },
              {
                title: t('field.status'),
                render: (_, a) => (
                  <Badge tone={a.disabled ? 'warn' : 'good'}>
                    {t(`key_state.${a.disabled ? 'disabled' : 'active'}`)}
                  </Badge>
                ),
              },
              {
                title: t('accounts.rights'),
                render: (_, a) => (
                  <>
                    {a.bound ? t('accounts.bound') : t('accounts.unbound')}
                    {seesRoles && (
                      <div>
                        <Link
                          to="/roles"
                          search={{ principal: a.id }}
                          aria-label={t('members.roles_of', { name: a.name })}
                        >
                          {t('members.bindings')}
                        </Link>
                      </div>
                    )}
                  </>
                ),
              },
              { title: t('field.created'), render: (_, a) => <Time at={a.created_at} /> },
              {
                title: t('field.actions'),
                className: 'stays',
                render: (_, a) => (
                  <Space>
                    <MayButton
                      may={mayWrite}
                      size="small"
                      aria-label={t('accounts.edit', { name: a.name })}
                      onClick={() => setOpen({ what: 'edit', account: a })}
                    >
                      {t('action.edit')}
                    </MayButton>
                    <MayButton
                      may={mayWrite}
                      size="small"
                      danger
                      aria-label={t('accounts.delete', { name: a.name })}
                      onClick={() => setOpen({ what: 'delete', account: a })}
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
      <Workloads />
      {open?.what === 'create' && <AccountDialog onClose={close} />}
      {open?.what === 'edit' && <AccountDialog account={open.account} onClose={close} />}
      {open?.what === 'delete' && (
        <ConfirmByName
          open
          title={t('accounts.delete', { name: open.account.name })}
          text={t('accounts.delete_text')}
          name={open.account.name}
          action={t('action.delete')}
          onClose={close}
          run={async () => {
            const { account } = open;
            await got(
              api.DELETE('/v1/service-accounts/{id}', {
                params: { path: { id: account.id }, header: { 'If-Match': etag(account) } },
              }),
            );
            void message.success(t('accounts.deleted', { name: account.name }));
            await queries.invalidateQueries({ queryKey: ['service-accounts'] });
            await queries.invalidateQueries({ queryKey: ['workloads'] });
            await queries.invalidateQueries({ queryKey: ['keys'] });
          }}
        />
      )}
    </>
  );
}

interface Values {
  name: string;
  description?: string;
  disabled?: boolean;
}

function AccountDialog({ account, onClose }: { account?: Account; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<Values>();
  const { busy, problem, save } = useSave<Values>(form, async (v) => {
    const body = { name: v.name.trim(), description: v.description?.trim() ?? '', disabled: v.disabled ?? false };
    if (account) {
      await got(
        api.PATCH('/v1/service-accounts/{id}', {
          params: { path: { id: account.id }, header: { 'If-Match': etag(account) } },
          body,
        }),
      );
    } else {
      await got(api.POST('/v1/service-accounts', { body }));
    }
    void message.success(account ? t('state.saved') : t('accounts.created', { name: body.name }));
    onClose();
    await queries.invalidateQueries({ queryKey: ['service-accounts'] });
  });
  return (
    <Modal
      open
      title={account ? t('accounts.edit', { name: account.name }) : t('accounts.create')}
      okText={account ? t('action.save') : t('action.create')}
      okButtonProps={{ 'data-testid': 'submit-service-account' }}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={onClose}
    >
      {!account && <p className="muted">{t('accounts.create_text')}</p>}
      {problem && <ProblemView problem={problem} />}
      <Form form={form} name="account" layout="vertical" onFinish={save} initialValues={account}>
        <Form.Item
          name="name"
          label={t('field.name')}
          rules={[{ required: true, whitespace: true, message: t('form.required') }]}
        >
          <Input autoComplete="off" maxLength={100} autoFocus />
        </Form.Item>
        <Form.Item name="description" label={t('field.description')}>
          <Input maxLength={500} />
        </Form.Item>
        <Form.Item
          name="disabled"
          label={t('keys.disabled')}
          valuePropName="checked"
          extra={t('accounts.disabled_hint')}
        >
          <Switch />
        </Form.Item>
      </Form>
    </Modal>
  );
}
