import { useQueryClient } from '@tanstack/react-query';
import { App, Form, Input, Modal, Switch } from 'antd';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../../api/client';
import { useTenant } from '../../data';
import { toLocalInput } from '../../localTime';
import { ProblemView } from '../../ui';
import { useSave } from '../../useSave';
import { AddressesField, ExpiryField, ScopesField } from './Fields';
import { endOf, fromScopes, type KeyValues, toUpdate } from './values';

export function EditKey({ apiKey, onClose }: { apiKey: Schemas['ApiKey']; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const maxAge = useTenant().data?.security.max_key_age;
  const end = endOf(apiKey, maxAge);
  const [form] = Form.useForm<KeyValues>();
  const { busy, problem, save } = useSave<KeyValues>(form, async (v) => {
    await got(
      api.PATCH('/v1/api-keys/{id}', {
        params: { path: { id: apiKey.id }, query: { wait: '10s' }, header: { 'If-Match': etag(apiKey) } },
        body: toUpdate(v),
      }),
    );
    void message.success(t('state.saved'));
    onClose();
    await queries.invalidateQueries({ queryKey: ['keys'] });
  });
  return (
    <Modal
      open
      title={t('keys.edit_one', { name: apiKey.name })}
      okText={t('action.save')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={onClose}
      width={720}
    >
      <p className="muted">{t('keys.edit_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        name="key"
        layout="vertical"
        onFinish={save}
        initialValues={{
          ...apiKey,
          scopes: fromScopes(apiKey.scopes),
          // An end by age is none of the key's own, and is not to become one.
          expires_at: end?.by === 'key' ? toLocalInput(end.at) : undefined,
        }}
      >
        <Form.Item
          name="name"
          label={t('field.name')}
          rules={[{ required: true, whitespace: true, message: t('form.required') }]}
        >
          <Input autoComplete="off" maxLength={100} />
        </Form.Item>
        <Form.Item name="description" label={t('field.description')}>
          <Input maxLength={500} />
        </Form.Item>
        <ScopesField />
        <div className="row">
          <ExpiryField maxAge={maxAge} />
          <Form.Item name="disabled" label={t('keys.disabled')} valuePropName="checked" extra={t('keys.disabled_hint')}>
            <Switch />
          </Form.Item>
        </div>
        <AddressesField />
      </Form>
    </Modal>
  );
}
