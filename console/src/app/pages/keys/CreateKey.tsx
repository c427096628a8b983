import { useQueryClient } from '@tanstack/react-query';
import { Form, Input, Modal, Select } from 'antd';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../../api/client';
import { rememberSecret } from '../../../lib/secrets';
import { keyCode } from '../../ascode';
import { useNamespaces, useServiceAccounts, useTenant } from '../../data';
import { toLocalInput } from '../../localTime';
import { AsCode, ProblemView } from '../../ui';
import { useSave } from '../../useSave';
import { AddressesField, controlRoles, ExpiryField, ScopesField } from './Fields';
import { SecretField } from './Secret';
import { type KeyValues, latestEnd, toCreate } from './values';

export function CreateKey(props: { onClose: () => void; onMade: (key: Schemas['ApiKeyWithSecret']) => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const namespaces = useNamespaces();
  const accounts = useServiceAccounts();
  const tenant = useTenant();
  const maxAge = tenant.data?.security.max_key_age;
  const [form] = Form.useForm<KeyValues>();
  const values = Form.useWatch((v: KeyValues) => v, form) ?? { name: '' };
  const { busy, problem, save } = useSave<KeyValues>(form, async (v) => {
    const key = await got(api.POST('/v1/api-keys', { params: { query: { wait: '10s' } }, body: toCreate(v) }));
    await queries.invalidateQueries({ queryKey: ['keys'] });
    props.onClose();
    if ('secret' in key) {
      if (key.secret) {
        rememberSecret(key.id, key.secret);
      }
      props.onMade(key);
    }
  });
  return (
    <Modal
      open
      title={t('keys.create')}
      okText={t('action.create')}
      okButtonProps={{ 'data-testid': 'submit-key' }}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={props.onClose}
      width={720}
    >
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        layout="vertical"
        onFinish={save}
        initialValues={{
          scopes: [{ namespace_id: namespaces.data?.[0]?.id, permissions: ['PUB', 'SUB'] }],
          expires_at: toLocalInput(latestEnd(maxAge, Date.now() - 60_000)),
        }}
      >
        <Form.Item
          name="name"
          label={t('field.name')}
          rules={[{ required: true, whitespace: true, message: t('form.required') }]}
        >
          <Input autoComplete="off" maxLength={100} />
        </Form.Item>
        {accounts.data && accounts.data.length > 0 && (
          <Form.Item name="owner_id" label={t('keys.owner')} extra={t('keys.owner_hint')}>
            <Select
              allowClear
              placeholder={t('keys.owner_me')}
              options={accounts.data.map((a) => ({ value: a.id, label: a.name }))}
            />
          </Form.Item>
        )}
        <ScopesField />
        <div className="row">
          <Form.Item name="control_role" label={t('keys.control_role')} extra={t('keys.control_hint')}>
            <Select allowClear options={controlRoles.map((r) => ({ value: r, label: t(`role.${r}`) }))} />
          </Form.Item>
          <ExpiryField maxAge={maxAge} needed={maxAge !== undefined} />
        </div>
        <AddressesField />
        <SecretField />
      </Form>
      <AsCode {...keyCode(toCreate(values))} />
    </Modal>
  );
}
